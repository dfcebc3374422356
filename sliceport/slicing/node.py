"""The slicing nodes of a model as front ends pass them to the lowering: resolved, folded or refused."""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.errors import Refusal
from sliceport.slicing.region import Region
from sliceport.slicing.spec import SliceSpec, SplitSpec, StridedSliceSpec

Spec = SliceSpec | SplitSpec | StridedSliceSpec


def extend_scope(scope: tuple[str, ...], node: str, attribute: str, used: dict[str, int]) -> tuple[str, ...]:
    """Return the scope of the graph in `attribute` of `node`, a node in `scope`. Add its last part to `used`.

    A part that is already in `used` gets a number, because nodes of one graph may share a name. `used` maps each part
    to the last number that was appended to it, or 1.

    >>> extend_scope((), "choice", "then_branch", {"choice.then_branch": 1})
    ('choice.then_branch#2',)
    """
    part = name = f"{node}.{attribute}"
    while part in used:
        used[name] += 1
        part = f"{name}#{used[name]}"
    used[part] = 1
    return (*scope, part)


@dataclass(frozen=True, slots=True)
class Cut:
    """One output of a slicing node.

    Attributes:
        output: Name of the value that is written; empty if the output is left out.
        region: The selected elements of the node's input.
        used: Whether a node reads the value, or the value is an output of the graph.
    """

    output: str
    region: Region
    used: bool


@dataclass(frozen=True, slots=True)
class NodeInModel:
    """A Slice, Split or StridedSlice and its place in the model: the base of the three states of a slicing node.

    Attributes:
        name: The node's name; if it is empty, the name of its first output that has one.
        op_type: Operator type.
        domain: Operator domain; empty for the standard one.
        opset: Version of that domain's operator set.
        scope: The graph that holds the node, as the path to it from the main graph: `node.attribute` for each node
            around it; see `extend_scope`. Empty for the main graph.
        input: Name of the value that is sliced; empty if the node has no input.
        element: ONNX name of the element type of the input (`FLOAT`, `INT64`, ...); empty if unknown.
        outputs: Names of the values that the node writes; an output that is left out has an empty name.
        origin: Empty for a node of a graph. For a node of a function, the function and the position of the node among
            the function's slicing nodes (`domain:name:overload#0`), equal for all calls.
        may_capture: Whether `input` may name a value of an outer graph, if the node's own graph has no such value.
    """

    name: str
    op_type: str
    domain: str
    opset: int
    scope: tuple[str, ...]
    input: str
    element: str
    outputs: tuple[str, ...]
    origin: str = ""
    may_capture: bool = True

    @property
    def label(self) -> str:
        """Operator type and name of the node, with which messages begin: `Slice 'crop_7'`."""
        return f"{self.op_type} {self.name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(NodeInModel):
    """A slicing node whose selected elements are known.

    Attributes:
        cuts: Its outputs, at least one.
        spec: Its parameters as written in the model; None for a node that was made from regions.
    """

    cuts: tuple[Cut, ...]
    spec: Spec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded(NodeInModel):
    """A slicing node whose outputs are constants, known before the model runs.

    Attributes:
        constants: The bytes of each output. Empty for a node in a branch that is never taken, and for front ends that
            do not compute the bytes.
    """

    constants: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(NodeInModel):
    """A slicing node that cannot be resolved, with the reason."""

    refusal: Refusal


SlicingNode = Resolved | Folded | Refused
"""A slicing node of a model, in one of the three states."""

"""What a front end hands to the lowering: the slicing nodes of a model, resolved as far as the model allows."""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.errors import Refusal
from sliceport.slicing.region import Region
from sliceport.slicing.spec import SliceSpec, SplitSpec, StridedSliceSpec

Spec = SliceSpec | SplitSpec | StridedSliceSpec


@dataclass(frozen=True, slots=True)
class Cut:
    """One output of a slicing node.

    Attributes:
        output: Name of the value that it writes.
        region: What it selects of the node's input.
        used: Whether anything reads it.
    """

    output: str
    region: Region
    used: bool


@dataclass(frozen=True, slots=True)
class NodeInModel:
    """What is common to all slicing nodes: where a Slice, Split or StridedSlice is in its model.

    Attributes:
        name: The node's name, or its first output's where it has none.
        op_type: Operator type.
        domain: Operator domain; empty for the standard one.
        opset: Version of that domain's operator set.
        scope: The graph that holds the node: empty for the main graph, else the path of `node.attribute` to it.
        input: Name of the value that is sliced; empty where the node lacks it.
        element: ONNX name of its element type (`FLOAT`, `INT64`, ...); empty where it is not known.
        outputs: Names of the values that the node writes; empty for one that is left out.
        origin: Empty for a node of a graph; for one that comes from a function, the function and the node's place among
            its slicing nodes (`domain:name:overload#0`), the same for each call.
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

    @property
    def label(self) -> str:
        """Operator and node, as messages start: `Slice 'crop_7'`."""
        return f"{self.op_type} {self.name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(NodeInModel):
    """A slicing node of which it is known what it selects.

    Attributes:
        cuts: What each output selects, one or more.
        spec: The node as it is written; None for one that is made from regions.
    """

    cuts: tuple[Cut, ...]
    spec: Spec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded(NodeInModel):
    """A slicing node whose outputs are constants, known before the model runs.

    Attributes:
        constants: The bytes of each output; none for a node in a branch that is never taken, and where the front end
            does not compute them.
    """

    constants: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(NodeInModel):
    """A slicing node that cannot be resolved.

    Attributes:
        refusal: Why not.
    """

    refusal: Refusal


SlicingNode = Resolved | Folded | Refused
"""A slicing node of a model, in one of the three states."""

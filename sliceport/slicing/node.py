"""What a front end hands to the lowering: one slicing node of a model, resolved as far as the model allows."""

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
    used: bool = True


@dataclass(frozen=True, slots=True)
class SlicingNode:
    """One Slice, Split or StridedSlice of a model.

    Exactly one of these holds: `cuts` is not empty (the node is resolved), `folded`, or `refusal` is set.

    Attributes:
        name: The node's name, or its first output's where it has none.
        op_type: Operator type.
        domain: Operator domain; empty for the standard one.
        opset: Version of that domain's operator set.
        scope: The graph that holds the node: empty for the main graph, else the path of `node.attribute` to it.
        input: Name of the value that is cut; empty where the node lacks it.
        element: ONNX name of its element type (`FLOAT`, `INT64`, ...); empty where it is not known.
        outputs: Names of the values that the node writes; empty for one that is left out.
        spec: The node as it is written, once its parameters are known.
        cuts: What each output selects.
        folded: Whether the outputs are constants, known before the model runs.
        constants: The bytes of each output of a folded node; none for one in a branch that is never taken.
        refusal: Why the node could not be resolved.
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
    spec: Spec | None = None
    cuts: tuple[Cut, ...] = ()
    folded: bool = False
    constants: tuple[bytes, ...] = ()
    refusal: Refusal | None = None
    origin: str = ""

    @property
    def label(self) -> str:
        """Operator and node, as messages start: `Slice 'crop_7'`."""
        return f"{self.op_type} {self.name!r}"

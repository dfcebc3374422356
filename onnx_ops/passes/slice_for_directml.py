"""Slice, where onnxruntime's DirectML provider refuses it, with its bounds written otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_ops.nodes import contested
from onnx_ops.passes.base import NodePass, Outcome
from onnx_ops.passes.builders import SLICE_INPUTS_OPSET, empty_node, slice_node
from onnx_ops.passes.matchers import spelled_slice
from onnx_ops.passes.value_info import Sizes
from sliceport.hardening import Defect
from sliceport.slicing import AxisSlice
from sliceport.slicing.spec import cut_shape

NO_AXES = Defect("steps without axes", "the provider refuses a Slice that has steps and leaves out its axes")
BELOW = Defect(
    "backwards from below the axis",
    "the provider refuses a backward Slice that starts below the axis (by the specification, and on onnxruntime's CPU "
    "provider, it starts at index 0; onnx's reference evaluator selected nothing)",
)
LEAST_START = Defect(
    "from the least integer to a negative end",
    "the provider refuses a forward Slice that starts at or below -2^31 and has a negative end",
)
EMPTY = Defect(
    "nothing is selected",
    "the provider skips all that it fuses with a Slice that selects nothing, so the others are never written",
)
RANK = Defect(
    "more than 8 axes",
    "the provider refuses the model for a tensor of more than 8 axes, whatever operator it is of",
)
MOST_AXES = 8
_INT32_MIN = -(2**31)
_STEPS = 4


class SliceForDirectMLPass(NodePass):
    """Write the bounds of a Slice as onnxruntime-directml 1.24.4 takes them; it selects the same.

    1. Steps are given and axes are not: the axes are written out.
    2. A step is negative and its start is below the axis (below -2^31, or the size of the axis is known): it becomes 0.
    3. A step is positive, its start at or below -2^31 and its end negative: the start becomes 0.
    4. Nothing is selected, of a shape that is known: the Slice becomes a constant.

    A tensor of more than 8 axes is reported; nothing helps, for a Reshape to fewer is refused as well. So is a Slice
    that onnxruntime's CPU provider and the specification read differently: it stays, for what it computes must.

    Given: y = Slice(x[4], starts=[-100], ends=[-200], axes=[0], steps=[-1])
    Result: y = Slice(x, starts=[0], ends=[-200], axes=[0], steps=[-1])

    Not seen: bounds that are not constants.
    """

    op_types = ("Slice",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        shape = self.sizes(data)
        if shape is not None and len(shape) > MOST_AXES:
            return None, (RANK,)
        disagreement = left_alone(node, opset, shape)
        if disagreement is not None:
            return None, (disagreement,)
        if opset < SLICE_INPUTS_OPSET:
            return None
        entries = spelled_slice(node, opset, shape)
        if data is None:
            return None
        empty = _empty_shape(entries, shape)
        dtype = self.known.dtype(data)
        if empty is not None and dtype is not None:
            form, found, new = "Constant", [EMPTY], [empty_node(empty, dtype)]
        else:
            found = [NO_AXES] if len(node.inputs) > _STEPS and node.inputs[3] is None else []
            found += _refused(entries, shape)
            if not found:
                return None
            made = slice_node(data, _taken(entries, shape), opset)
            assert made is not None
            form, new = "Slice", made
        new[-1].name = node.name
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return form, tuple(found)


def left_alone(node: ir.Node, opset: int, shape: Sizes | None) -> Defect | None:
    """Why a node is left as it is: any other form would change what onnxruntime's CPU provider computes, too."""
    disagreement = contested(node, opset, shape)
    if disagreement is None or not disagreement.is_of_the_cpu:
        return None
    return Defect(disagreement.id, disagreement.reason, is_disputed=True)


def _empty_shape(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> tuple[int, ...] | None:
    """The shape of what is selected of a known shape, if it has no elements and the data has some."""
    known = [size for size in shape or () if size]
    if shape is None or len(known) != len(shape):
        return None
    kept = cut_shape(entries, known)
    return kept if 0 in kept else None


def _refused(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> list[Defect]:
    """What the provider refuses of the bounds."""
    taken = _taken(entries, shape)
    changed = [entry for axis, entry in entries.items() if taken[axis] != entry]
    return list(dict.fromkeys(BELOW if entry.step < 0 else LEAST_START for entry in changed))


def _taken(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> dict[int, AxisSlice]:
    """The bounds as the provider takes them."""
    taken = {}
    for axis, entry in entries.items():
        size = shape[axis] if shape is not None else None
        is_below = entry.start <= _INT32_MIN or (size is not None and entry.start < -size)
        is_refused = is_below if entry.step < 0 else entry.start <= _INT32_MIN and entry.end < 0
        taken[axis] = entry._replace(start=0) if is_refused else entry
    return taken

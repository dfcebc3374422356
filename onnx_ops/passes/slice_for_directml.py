"""A Slice that onnxruntime's DirectML provider refuses gets equivalent bounds."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_ops.model.nodes import contested
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import SLICE_INPUTS_OPSET, build_empty, build_slice
from onnx_ops.passes.matchers import read_slice_by_spec
from onnx_ops.passes.outcome import Rewritten, Unfixable
from onnx_ops.passes.value_info import Sizes
from sliceport.defects.defect import Defect
from sliceport.defects.engines import ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_OPTIMIZED
from sliceport.defects.onnxruntime import (
    BELOW_THE_AXIS,
    FROM_THE_LEAST,
    MORE_THAN_EIGHT_AXES,
    NOTHING_SELECTED,
    STEPS_WITHOUT_AXES,
)
from sliceport.slicing import AxisSlice
from sliceport.slicing.spec import cut_shape

MAX_DIRECTML_AXES = 8
_INT32_MIN = -(2**31)
_STEPS = 4


class SliceForDirectMLPass(NodePass):
    """Give a Slice that onnxruntime-directml 1.24.4 refuses bounds that it accepts and that select the same.

    1. There are steps and no axes: the axes are written out.
    2. A step is negative and its start is below the axis (below -2^31, or the size of the axis is known): the start
       becomes 0.
    3. A step is positive, its start at or below -2^31 and its end negative: the start becomes 0.
    4. Nothing is selected of a known shape: the Slice becomes a constant.

    Reported and not fixed: a tensor of more than 8 axes, as a Reshape to fewer is refused too; and a Slice that
    onnxruntime's CPU provider and the specification read differently, as any replacement would change its result on
    one of them.

    Given: y = Slice(x[4], starts=[-100], ends=[-200], axes=[0], steps=[-1])
    Result: y = Slice(x, starts=[0], ends=[-200], axes=[0], steps=[-1])

    Not found: bounds that are not constant.
    """

    op_types = ("Slice",)

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | Unfixable | None:
        """Rewrite a node that matches; see the class."""
        data = node.inputs[0] if node.inputs else None
        shape = self.sizes(data)
        if shape is not None and len(shape) > MAX_DIRECTML_AXES:
            return Unfixable((MORE_THAN_EIGHT_AXES,))
        disagreement = find_contested(node, opset, shape)
        if disagreement is not None:
            return Unfixable((disagreement,))
        if opset < SLICE_INPUTS_OPSET:
            return None
        entries = read_slice_by_spec(node, opset, shape)
        if data is None:
            return None
        empty = _empty_shape(entries, shape)
        dtype = self.value_info.dtype(data)
        if empty is not None and dtype is not None:
            found, new = [NOTHING_SELECTED], [build_empty(empty, dtype)]
        else:
            found = [STEPS_WITHOUT_AXES] if len(node.inputs) > _STEPS and node.inputs[3] is None else []
            found += _find_refused(entries, shape)
            if not found:
                return None
            new = build_slice(data, _adapt_bounds(entries, shape), opset)
        self.replace_node(node, new)
        return Rewritten(new[-1].op_type, tuple(found))


def find_contested(node: ir.Node, opset: int, shape: Sizes | None) -> Defect | None:
    """Return why a node must stay: on onnxruntime's CPU provider a replacement would compute something else."""
    disagreement = contested(node, opset, shape)
    if disagreement is None or not {ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_OPTIMIZED}.intersection(disagreement.engines):
        return None
    return disagreement


def _empty_shape(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> tuple[int, ...] | None:
    """Return the shape of the output, if that has no elements and the data have a known shape with some."""
    known = [size for size in shape or () if size]
    if shape is None or len(known) != len(shape):
        return None
    kept = cut_shape(entries, known)
    return kept if 0 in kept else None


def _find_refused(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> list[Defect]:
    """Which of the bounds the provider refuses."""
    taken = _adapt_bounds(entries, shape)
    changed = [entry for axis, entry in entries.items() if taken[axis] != entry]
    return list(dict.fromkeys(BELOW_THE_AXIS if entry.step < 0 else FROM_THE_LEAST for entry in changed))


def _adapt_bounds(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> dict[int, AxisSlice]:
    """Equivalent bounds that the provider accepts."""
    taken = {}
    for axis, entry in entries.items():
        size = shape[axis] if shape is not None else None
        is_below = entry.start <= _INT32_MIN or (size is not None and entry.start < -size)
        is_refused = is_below if entry.step < 0 else entry.start <= _INT32_MIN and entry.end < 0
        taken[axis] = entry._replace(start=0) if is_refused else entry
    return taken

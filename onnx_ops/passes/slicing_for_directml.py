"""Replacement of Slices and Splits that onnxruntime's DirectML provider refuses or computes wrongly."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_ops.model.nodes import contested, node_name
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import SLICE_INPUTS_OPSET, build_empty, build_slice
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.gating import is_gated
from onnx_ops.passes.matchers import data_of, read_slice_by_spec, read_split
from onnx_ops.passes.names import derive_name
from onnx_ops.passes.outcome import SKIPS
from onnx_ops.passes.value_info import Sizes, read_static
from sliceport.defects.defect import Defect
from sliceport.defects.engines import ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_OPTIMIZED
from sliceport.defects.onnxruntime import (
    BELOW_THE_AXIS,
    EMPTY_PART,
    FROM_THE_LEAST,
    MORE_THAN_EIGHT_AXES,
    NOTHING_SELECTED,
    ONE_PART_GATES_ANOTHER,
    STEPS_WITHOUT_AXES,
)
from sliceport.slicing import AxisSlice, SplitSpec
from sliceport.slicing.spec import cut_shape

_MAX_AXES = 8
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
    reveals_shapes = True

    def rewrite(self, node: ir.Node, opset: int) -> None:
        """Rewrite a node that matches; see the class."""
        data = data_of(node)
        shape = self.sizes(data)
        # A replacement of such a Slice would compute something else on an engine.
        if (defect := _find_unfixable(node, opset, shape)) is not None:
            self.report_change(node, None, (defect,))
            return
        if opset < SLICE_INPUTS_OPSET:
            return
        entries = read_slice_by_spec(node, opset, shape)
        empty = _empty_shape(entries, shape)
        dtype = self.value_info.dtype(data)
        if empty is not None and dtype is not None:
            defects, new = [NOTHING_SELECTED], [build_empty(empty, dtype)]
        else:
            defects = [STEPS_WITHOUT_AXES] if len(node.inputs) > _STEPS and node.inputs[3] is None else []
            defects += _find_refused(entries, shape)
            if not defects:
                return
            new = build_slice(data, _adapt_bounds(entries, shape), opset)
        self.replace_node(node, new)
        self.report_change(node, new[-1].op_type, tuple(defects))


def _find_unfixable(node: ir.Node, opset: int, shape: Sizes | None) -> Defect | None:
    """Return the defect that no replacement avoids: too many axes, or another result on onnxruntime's CPU provider."""
    if shape is not None and len(shape) > _MAX_AXES:
        return MORE_THAN_EIGHT_AXES
    disagreement = contested(node, opset, shape)
    if disagreement is None or not {ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_OPTIMIZED}.intersection(disagreement.engines):
        return None
    return disagreement


def _empty_shape(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> tuple[int, ...] | None:
    """Return the shape of the output, if that has no elements and the data have a known shape with some."""
    known = read_static(shape)
    kept = () if known is None or 0 in known else cut_shape(entries, known)
    return kept if 0 in kept else None


def _find_refused(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> list[Defect]:
    """Return the defects that make the provider refuse bounds."""
    adapted = _adapt_bounds(entries, shape)
    changed = [entry for axis, entry in entries.items() if adapted[axis] != entry]
    return list(dict.fromkeys(BELOW_THE_AXIS if entry.step < 0 else FROM_THE_LEAST for entry in changed))


def _adapt_bounds(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> dict[int, AxisSlice]:
    """Return equivalent bounds that the provider accepts."""
    adapted = {}
    for axis, entry in entries.items():
        size = shape[axis] if shape is not None else None
        is_below = entry.start <= _INT32_MIN or (size is not None and entry.start < -size)
        is_refused = is_below if entry.step < 0 else entry.start <= _INT32_MIN and entry.end < 0
        adapted[axis] = entry._replace(start=0) if is_refused else entry
    return adapted


class SplitForDirectMLPass(NodePass):
    """Replace a Split that onnxruntime-directml 1.24.4 computes wrongly by a Slice for each part that is read.

    1. A part p is multiplied by the Sigmoid of another part q of the same Split, as in a GLU.
    2. A part is empty. It becomes a constant if its shape is known.

    Given: a, b = Split(x[4], axis=0); y = Mul(a, Sigmoid(b))
    Result: a = Slice(x, [0], [2], [0]); b = Slice(x, [2], [4], [0]); y = Mul(a, Sigmoid(b))

    Reported and not fixed: a tensor of more than 8 axes, as for `SliceForDirectMLPass`; a Split whose part sizes are
    neither constant nor known from the size of its axis.
    """

    op_types = ("Split",)
    reveals_shapes = True

    def rewrite(self, node: ir.Node, opset: int) -> None:
        """Rewrite a node that matches; see the class."""
        data = data_of(node)
        shape = self.sizes(data)
        defect = _find_unfixable(node, opset, shape)
        if defect is MORE_THAN_EIGHT_AXES:
            self.report_change(node, None, (defect,))
            return
        if not any(map(is_used, node.outputs)):
            return
        if defect is not None:
            self.report_change(node, None, (defect,))
            return
        parts = self._read_parts(node, opset)
        defects = []
        if is_gated(node.outputs):
            defects.append(ONE_PART_GATES_ANOTHER)
        if parts is not None and 0 in parts.sizes:
            defects.append(EMPTY_PART)
        if not defects:
            return
        if parts is None:
            self.report_change(node, None, tuple(defects))
            return
        new: list[ir.Node] = []
        slices: list[ir.Node] = []
        successors = {}
        for output, (start, stop) in zip(node.outputs, parts.bounds, strict=True):
            if is_used(output):
                new += self._build_part(data, parts.axis, start, stop, opset)
                new[-1].name = derive_name(node_name(node), output.name or "")
                successors[output] = new[-1].outputs[0]
                slices.append(new[-1])
        self.replace_nodes([node], new, successors, slices)
        self.report_change(node, "Slice", tuple(defects))

    def _read_parts(self, node: ir.Node, opset: int) -> SplitSpec | None:
        try:
            return read_split(node, opset, self.sizes(node.inputs[0]))
        except SKIPS:
            return None

    def _build_part(self, data: ir.Value, axis: int, start: int, stop: int, opset: int) -> list[ir.Node]:
        """Return a Slice; or a constant for an empty part of a known shape, see `SliceForDirectMLPass`."""
        sizes, dtype = self.sizes(data), self.value_info.dtype(data)
        if start == stop and sizes is not None and dtype is not None:
            shape = read_static(tuple([0 if i == axis % len(sizes) else size for i, size in enumerate(sizes)]))
            if shape is not None:
                return [build_empty(shape, dtype)]
        return build_slice(data, {axis: AxisSlice(start, stop, 1)}, opset)

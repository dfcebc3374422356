"""Replacement of Slices and Splits that onnxruntime's DirectML provider refuses or computes wrongly."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.defects.conditions import replace_refused_starts, shape_if_empty, slice_defects, split_defects
from onnx_ops.model.views import static_sizes
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_empty, build_slice
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.matchers import data_of, read_slice_by_spec, read_split
from onnx_ops.passes.outcome import SKIPS
from sliceport.errors import DynamicSlice
from sliceport.slicing import AxisSlice


class SliceForDirectMLPass(NodePass):
    """Rewrite a Slice that onnxruntime-directml 1.24.4 refuses or computes wrongly, so that it selects the same.

    1. The Slice lists steps but no axes: the axes are written out.
    2. A step is negative, and its start is below the axis. This is known if the start is at or below -2^31 or the size
       of the axis is known. The start becomes 0.
    3. A step is positive, its start at or below -2^31 and its end negative: the start becomes 0.
    4. The Slice selects nothing, and its data have elements and a known shape: the Slice becomes a constant.

    Reported and not fixed: a tensor of more than 8 axes, because a Reshape to fewer axes is refused, too; a Slice that
    onnxruntime's CPU provider and the specification read differently, because any replacement would change its result
    in one of these readings; and a Slice that selects nothing from data of unknown type.

    Given: y = Slice(x[4], starts=[-100], ends=[-200], axes=[0], steps=[-1])
    Result: y = Slice(x, starts=[0], ends=[-200], axes=[0], steps=[-1])

    Not found: bounds that are not constant.
    """

    op_types = ("Slice",)
    reveals_shapes = True

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        shape = self.sizes(data)
        defects = self.on_directml(node, slice_defects(node, opset, shape))
        if not defects:
            return
        # "named" is a defect without a correct replacement. `slice_defects` returns such a defect alone.
        if defects[0].handling == "named":
            self.report_change(node, None, defects)
            return
        entries = read_slice_by_spec(node, opset, shape)
        empty, dtype = shape_if_empty(entries, shape), self.value_info.dtype(data)
        if empty is None:
            new_nodes = build_slice(data, replace_refused_starts(entries, shape), opset)
        elif dtype is None:
            self.report_change(node, None, defects, f"the element type of {data.name!r} is not known")
            return
        else:
            new_nodes = [build_empty(empty, dtype)]
        self.replace_node(node, new_nodes, defects)


class SplitForDirectMLPass(NodePass):
    """Replace a Split that onnxruntime-directml 1.24.4 computes wrongly by a Slice for each part that is read.

    1. A part is multiplied by the Sigmoid of another part of the same Split, as in a GLU.
    2. A part is empty. It becomes a constant if its shape is known.

    Given: a, b = Split(x[4], axis=0); y = Mul(a, Sigmoid(b))
    Result: a = Slice(x, [0], [2], [0]); b = Slice(x, [2], [4], [0]); y = Mul(a, Sigmoid(b))

    Reported and not fixed: a tensor of more than 8 axes, as for `SliceForDirectMLPass`; a Split whose part sizes are
    neither constant nor known from the size of its axis.
    """

    op_types = ("Split",)
    reveals_shapes = True

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        shape = self.sizes(data)
        defects = self.on_directml(node, split_defects(node, opset, shape))
        if not defects:
            return
        try:
            spec = read_split(node, opset, shape)
        except SKIPS as reason:
            hint = "; value_info or fixed sizes of the inputs would tell it" if isinstance(reason, DynamicSlice) else ""
            self.report_change(node, None, defects, f"{reason}{hint}")
            return
        # For a "named" defect, no replacement is correct. `split_defects` returns no other defect with it.
        if defects[0].handling == "named":
            self.report_change(node, None, defects)
            return
        parts = {
            output: self._build_part(data, spec.axis, start, stop, opset)
            for output, (start, stop) in zip(node.outputs, spec.bounds, strict=True)
            if is_used(output)
        }
        self.replace_each_output(node, parts)
        is_sliced = any(nodes[-1].op_type == "Slice" for nodes in parts.values())
        self.report_change(node, "Slice" if is_sliced else "Constant", defects)

    def _build_part(self, data: ir.Value, axis: int, start: int, stop: int, opset: int) -> list[ir.Node]:
        """Return the nodes of a Slice of one part, or a constant for an empty part of known shape and type."""
        sizes, dtype = self.sizes(data), self.value_info.dtype(data)
        if start == stop and sizes is not None and dtype is not None:
            shape = static_sizes(0 if index == axis % len(sizes) else size for index, size in enumerate(sizes))
            if shape is not None:
                return [build_empty(shape, dtype)]
        return build_slice(data, {axis: AxisSlice(start, stop, 1)}, opset)

"""A Split that onnxruntime's DirectML provider computes wrongly becomes Slices."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.nodes import node_name
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_empty, build_slice_1d
from onnx_ops.passes.cleanup import is_used
from onnx_ops.passes.gating import is_gated
from onnx_ops.passes.matchers import read_split
from onnx_ops.passes.names import derive_name
from onnx_ops.passes.outcome import Rewritten, Skip, Unfixable
from onnx_ops.passes.slice_for_directml import MAX_DIRECTML_AXES, find_contested
from sliceport.defects.onnxruntime import EMPTY_PART, MORE_THAN_EIGHT_AXES, ONE_PART_GATES_ANOTHER
from sliceport.slicing import SplitSpec


class SplitForDirectMLPass(NodePass):
    """Replace a Split that onnxruntime-directml 1.24.4 computes wrongly by a Slice for each part that is read.

    1. A part p is multiplied by the Sigmoid of another part q of the same Split, as in a GLU.
    2. A part is empty. It becomes a constant if its shape is known.

    Given: a, b = Split(x[4], axis=0); y = Mul(a, Sigmoid(b))
    Result: a = Slice(x, [0], [2], [0]); b = Slice(x, [2], [4], [0]); y = Mul(a, Sigmoid(b))

    Reported and not fixed: a tensor of more than 8 axes, see `SliceForDirectMLPass`; a Split whose part sizes are
    neither constant nor known from the size of its axis.
    """

    op_types = ("Split",)

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | Unfixable | None:
        """Rewrite a node that matches; see the class."""
        data = node.inputs[0] if node.inputs else None
        shape = self.sizes(data)
        if shape is not None and len(shape) > MAX_DIRECTML_AXES:
            return Unfixable((MORE_THAN_EIGHT_AXES,))
        if not any(map(is_used, node.outputs)):
            return None
        disagreement = find_contested(node, opset, shape)
        if disagreement is not None:
            return Unfixable((disagreement,))
        parts = self._read_parts(node, opset)
        found = []
        if is_gated(node.outputs):
            found.append(ONE_PART_GATES_ANOTHER)
        if parts is not None and 0 in parts.sizes:
            found.append(EMPTY_PART)
        if not found:
            return None
        if parts is None or data is None:
            return Unfixable(tuple(found))
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
        return Rewritten("Slice", tuple(found))

    def _read_parts(self, node: ir.Node, opset: int) -> SplitSpec | None:
        try:
            return read_split(node, opset, self.sizes(node.inputs[0] if node.inputs else None))
        except Skip:
            return None

    def _build_part(self, data: ir.Value, axis: int, start: int, stop: int, opset: int) -> list[ir.Node]:
        """Return a Slice; or a constant for an empty part of a known shape, see `SliceForDirectMLPass`."""
        shape, dtype = self.sizes(data), self.value_info.dtype(data)
        if start == stop and shape is not None and dtype is not None:
            dims = [0 if i == axis % len(shape) else dim for i, dim in enumerate(shape)]
            known = [dim for dim in dims if dim is not None]
            if len(known) == len(dims):
                return [build_empty(known, dtype)]
        return build_slice_1d(data, start, stop, axis, opset)

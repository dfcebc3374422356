"""Gather of one constant index becomes a Slice and a Squeeze."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import constant, is_operator
from onnx_ops.passes.base import NodePass, Outcome
from onnx_ops.passes.builders import slice_node, view_node
from onnx_ops.passes.matchers import gathered, source_of
from sliceport.slicing import AxisSlice


class ScalarGatherToSlicePass(NodePass):
    """Write a Gather of one constant index, which drops the axis, as a Slice and a Squeeze.

    Not one of `ALL`: onnxruntime's CPU provider takes up to 1.8 times as long for the two. It is for engines that have
    no Gather, or take longer for it.

    1. The index is a scalar, within a size that is known.

    Given: y = Gather(x[8, 3], 2, axis=0)
    Result: y = Squeeze(Slice(x, [2], [3], [0]), [0])

    Not rewritten: what cuts a Shape, which never leaves the CPU.
    """

    op_types = ("Gather",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        source = source_of(data)
        indices = node.inputs[1] if len(node.inputs) > 1 else None
        listed = None if indices is None else constant(indices)
        if data is None or source is None or listed is None or len(listed.shape) != 0:
            return None
        if is_operator(source.producer(), "Shape"):
            return None
        shape = self.sizes(data)
        axis, kept, _ = gathered(node, opset, shape)
        assert shape is not None
        new = slice_node(data, {axis: AxisSlice.of(kept)}, opset)
        assert new is not None
        new[-1].name = node.name
        part = new[-1].outputs[0]
        self.describe(part, data, (*shape[:axis], 1, *shape[axis + 1 :]), node.outputs[0])
        new += view_node("Squeeze", part, [axis], opset)
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return "Slice and Squeeze", ()

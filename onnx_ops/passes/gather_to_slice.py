"""Gather by constant indices that a range has becomes a Slice."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import constant
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import slice_node
from onnx_ops.passes.matchers import gathered
from sliceport.slicing import AxisSlice


class GatherToSlicePass(NodePass):
    """Write a Gather of constant indices as a Slice.

    1. The indices are a list of neighbours, upwards or downwards, or of an arithmetic progression.

    The size of the axis is known and no index is beyond: a Gather would fail there, and a Slice would give less.

    Given: y = Gather(x[8], [1, 3, 5], axis=0)
    Result: y = Slice(x, [1], [6], [0], [2])

    Not rewritten: a single index, for which see `ScalarGatherToSlicePass` and `SiblingsToSplitPass`; steps before
    opset 10.
    """

    op_types = ("Gather",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        indices = node.inputs[1] if len(node.inputs) > 1 else None
        listed = None if indices is None else constant(indices)
        if data is None or listed is None or len(listed.shape) != 1:
            return None
        axis, kept, _ = gathered(node, opset, self.sizes(data))
        new = slice_node(data, {axis: AxisSlice.of(kept)}, opset)
        if new is None:
            raise NotApplied("it would need steps, which Slice has from opset 10 on")
        new[-1].name = node.name
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return "Slice", ()

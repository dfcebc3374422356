"""A Gather by constant indices that form a range becomes a Slice."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.nodes import constant
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_slice
from onnx_ops.passes.matchers import read_gather
from onnx_ops.passes.outcome import Rewritten
from sliceport.slicing import AxisSlice


class GatherToSlicePass(NodePass):
    """Replace a Gather by constant indices by a Slice.

    1. The indices are a list, and an arithmetic progression.

    The size of the axis is known and all indices are in range: for others a Gather fails and a Slice selects fewer.

    Given: y = Gather(x[8], [1, 3, 5], axis=0)
    Result: y = Slice(x, [1], [6], [0], [2])

    Not rewritten: a scalar index, for which see `ScalarGatherToSlicePass` and `SiblingsToSplitPass`; steps before
    opset 10.
    """

    op_types = ("Gather",)

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """Rewrite a node that matches; see the class."""
        data = node.inputs[0] if node.inputs else None
        indices = node.inputs[1] if len(node.inputs) > 1 else None
        listed = None if indices is None else constant(indices)
        if data is None or listed is None or len(listed.shape) != 1:
            return None
        axis, kept, _ = read_gather(node, opset, self.sizes(data))
        new = build_slice(data, {axis: AxisSlice.of(kept)}, opset)
        self.replace_node(node, new)
        return Rewritten("Slice")

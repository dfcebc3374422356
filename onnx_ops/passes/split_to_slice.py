"""A Split with one part that is read becomes a Slice."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_slice_1d
from onnx_ops.passes.cleanup import is_used
from onnx_ops.passes.matchers import read_exact_split
from onnx_ops.passes.outcome import Rewritten


class SplitToSlicePass(NodePass):
    """Replace a Split with only one part that is read by a Slice, which copies only that part.

    1. The part sizes are constant, and the size of the axis is known: a Split whose parts do not add up to it fails.

    Given: a, b = Split(x[4], axis=0); y = Neg(b)
    Result: b = Slice(x, [2], [4], [0]); y = Neg(b)
    """

    op_types = ("Split",)

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """Rewrite a node that matches; see the class."""
        read = [i for i, output in enumerate(node.outputs) if is_used(output)]
        data = node.inputs[0] if node.inputs else None
        if len(read) != 1 or data is None:
            return None
        parts = read_exact_split(node, opset, self.sizes(data))
        (i,) = read
        new = build_slice_1d(data, *parts.bounds[i], parts.axis, opset)
        new[-1].name = node.name
        self.replace_nodes([node], new, {node.outputs[i]: new[-1].outputs[0]})
        return Rewritten("Slice")

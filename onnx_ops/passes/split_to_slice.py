"""A Split of which one part is read becomes a Slice."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.passes.base import NodePass, Outcome
from onnx_ops.passes.builders import is_used, slice_nodes
from onnx_ops.passes.matchers import filled_parts


class SplitToSlicePass(NodePass):
    """Write a Split of which only one part is read as a Slice, which moves only that part.

    1. The part sizes are constants, and the size of the axis is known: a Split that does not fill it would fail.

    Given: a, b = Split(x[4], axis=0); y = Neg(b)
    Result: b = Slice(x, [2], [4], [0]); y = Neg(b)
    """

    op_types = ("Split",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        read = [i for i, output in enumerate(node.outputs) if is_used(output)]
        data = node.inputs[0] if node.inputs else None
        if len(read) != 1 or data is None:
            return None
        parts = filled_parts(node, opset, self.sizes(data))
        (i,) = read
        new = slice_nodes(data, *parts.bounds[i], parts.axis, opset)
        new[-1].name = node.name
        self.put_in_place([node], new, {node.outputs[i]: new[-1].outputs[0]})
        return "Slice", ()

"""A Split of which one part is read becomes a Slice."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.hardening import Defect
from onnx_ops.passes.base import NodePass, is_used, slice_nodes, split_parts


class SplitToSlicePass(NodePass):
    """Write a Split of which only one part is read as a Slice, which moves only that part.

    Given: a, b = Split(x[4], axis=0); y = Neg(b)
    Result: b = Slice(x, [2], [4], [0]); y = Neg(b)

    Not rewritten: a Split whose part sizes are not constants, nor known from the size of its axis.
    """

    op_type = "Split"

    def rewrite(self, node: ir.Node, opset: int) -> tuple[str | None, tuple[Defect, ...]] | None:
        """See the class."""
        read = [i for i, output in enumerate(node.outputs) if is_used(output)]
        data = node.inputs[0] if node.inputs else None
        parts = split_parts(node, opset, self.sizes(data)) if len(read) == 1 else None
        if parts is None or data is None:
            return None
        (i,) = read
        new = slice_nodes(data, *parts.bounds[i], parts.axis, opset)
        new[-1].name = node.name
        self.put_in_place(node, new, {node.outputs[i]: new[-1].outputs[0]})
        return "Slice", ()

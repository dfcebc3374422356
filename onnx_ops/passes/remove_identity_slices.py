"""A Slice that keeps everything goes."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.hardening import Defect
from onnx_ops.passes.base import NodePass, replace_by, written_slice


class RemoveIdentitySlicesPass(NodePass):
    """Remove a Slice that keeps all of its input in its order.

    1. The size of an axis is known, and all of it is kept, forward.
    2. The size is open, the start is 0, the step 1 and the end INT64_MAX.

    Given: y = Neg(Slice(x[4], [0], [9], [0]))
    Result: y = Neg(x)

    Not rewritten: a Slice that makes an output of its graph; bounds that are no constants.
    """

    op_type = "Slice"

    def rewrite(self, node: ir.Node, opset: int) -> tuple[str | None, tuple[Defect, ...]] | None:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        shape = self.sizes(data)
        entries = written_slice(node, opset, shape)
        if data is None or entries is None:
            return None
        known = {axis: shape[axis] for axis in entries} if shape is not None else {}
        if not all(entry.is_whole(known.get(axis)) for axis, entry in entries.items()):
            return None
        return ("nothing", ()) if replace_by(node, data) else None

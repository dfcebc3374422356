"""A Slice that keeps everything goes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_ops.hardening import Defect
from onnx_ops.passes.base import NodePass, Sizes, replace_by, written_slice
from onnx_ops.slicing import resolve_axis
from onnx_ops.slicing.axis import INT64_MAX


class RemoveIdentitySlicesPass(NodePass):
    """Remove a Slice that keeps all of its input in its order.

    1. The size of an axis is known, and all of it is kept, forward.
    2. The size is open, the start is 0, the step 1 and the end INT64_MAX.

    Given: y = Neg(Slice(x[4], [0], [9], [0]))
    Result: y = Neg(x)

    Not rewritten: a Slice that makes an output of its graph; bounds that are no constants.
    """

    op_type = "Slice"

    def rewrite(
        self, node: ir.Node, opset: int, sizes: Mapping[str, Sizes]
    ) -> tuple[str | None, tuple[Defect, ...]] | None:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        shape = sizes.get(data.name or "") if data is not None else None
        entries = written_slice(node, opset, shape)
        if data is None or entries is None:
            return None
        for axis, entry in entries.items():
            size = shape[axis] if shape is not None and axis < len(shape) else None
            if size is None and entry != (0, INT64_MAX, 1):
                return None
            if size is not None and resolve_axis(*entry, size) != range(size):
                return None
        return ("nothing", ()) if replace_by(node, data) else None

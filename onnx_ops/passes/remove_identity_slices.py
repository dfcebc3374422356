"""A Slice or Split that keeps everything goes."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import is_used, slice_node
from onnx_ops.passes.matchers import filled_parts, written_slice


class RemoveIdentitySlicesPass(NodePass):
    """Remove a Slice or Split that keeps all of its input in its order, and what a Slice does to axes that it keeps.

    1. The size of an axis is known, and all of it is kept, forward.
    2. The size is open, the start is 0, the step 1 and the end INT64_MAX.
    3. A Split has one part, which is all of its axis; its size is known.
    4. Nothing reads what comes out, of a Gather either.
    5. Some axes of a Slice are kept whole by 1 or 2 and others are cut: the Slice names only those.

    Given: y = Neg(Slice(x[4], [0], [9], [0]))
    Result: y = Neg(x)

    An output of the graph becomes an Identity. Not rewritten: bounds that are no constants.
    """

    op_types = ("Slice", "Split", "Gather")

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        if not any(map(is_used, node.outputs)):
            self.take_away(node)
            return "nothing", ()
        if data is None or node.op_type == "Gather":
            return None
        if node.op_type == "Split":
            if len(node.outputs) != 1:
                return None
            filled_parts(node, opset, self.sizes(data))
        else:
            try:
                entries = written_slice(node, opset, self.sizes(data))
            except NotApplied:
                return None
            cut = {axis: entry for axis, entry in entries.items() if not entry.is_whole(self.size(data, axis))}
            if cut and len(cut) < len(entries):
                new = slice_node(data, cut, opset)
                assert new is not None
                new[-1].name = node.name
                self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
                return "Slice", ()
            if cut:
                return None
        return self.replace_by(node, {node.outputs[0]: data}), ()

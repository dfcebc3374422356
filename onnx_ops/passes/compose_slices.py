"""Slice of a Slice becomes one Slice."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.hardening import Defect
from onnx_ops.passes.base import NodePass, drop_unread, slice_node, written_slice


class ComposeSlicesPass(NodePass):
    """Make one Slice of a Slice of a Slice, through Identity.

    1. An axis that only one of them cuts keeps its entry.
    2. Both cut an axis whose size is known: what is left of it, any steps and signs.
    3. Both cut an axis of an open size, forward, all bounds from 0 up: starts add up and the nearer end counts.

    Given: y = Slice(Slice(x[10], [1], [9], [0], [2]), [1], [3], [0])
    Result: y = Slice(x, [3], [6], [0], [2])

    Not rewritten: bounds that are no constants; other bounds of an open axis; steps before opset 10, which has none.
    """

    op_type = "Slice"

    def rewrite(self, node: ir.Node, opset: int) -> tuple[str | None, tuple[Defect, ...]] | None:
        """See the class."""
        first = _behind_identities(node.inputs[0]) if node.inputs else None
        if first is None or first.op_type != "Slice" or first.domain not in ("", "ai.onnx"):
            return None
        data = first.inputs[0]
        shape = self.sizes(data)
        outer, inner = written_slice(first, opset, shape), written_slice(node, opset, shape)
        if data is None or outer is None or inner is None:
            return None
        entries = dict(outer)
        for axis, entry in inner.items():
            size = shape[axis] if shape is not None and axis < len(shape) else None
            made = outer[axis].then(entry, size) if axis in outer else entry
            if made is None:
                return None
            entries[axis] = made
        new = slice_node(data, entries, opset)
        if new is None:
            return None
        new[-1].name = node.name
        passed = node.inputs[0]
        self.put_in_place(node, new, {node.outputs[0]: new[-1].outputs[0]})
        drop_unread(passed)
        return "Slice", ()


def _behind_identities(value: ir.Value | None) -> ir.Node | None:
    producer = value.producer() if value is not None else None
    while producer is not None and producer.op_type == "Identity" and producer.domain in ("", "ai.onnx"):
        source = producer.inputs[0]
        producer = source.producer() if source is not None else None
    return producer

"""Slices of one value that select the same become one."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_ops.hardening import Defect
from onnx_ops.passes.base import NodePass, replace_by, written_slice


class MergeEqualSlicesPass(NodePass):
    """Let all readers of equal Slices of one value, in one graph, read the first.

    Given: a = Slice(x, [1], [3], [0]); b = Slice(x, [1], [3], [0], [1]); y = Add(a, b)
    Result: a = Slice(x, [1], [3], [0]); y = Add(a, a)

    Not rewritten: a Slice that makes an output of its graph; bounds that are no constants.
    """

    op_type = "Slice"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the pass."""
        self._seen: dict[Any, ir.Value] = {}
        return super().call(model)

    def rewrite(self, node: ir.Node, opset: int) -> tuple[str | None, tuple[Defect, ...]] | None:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        entries = written_slice(node, opset, self.sizes(data))
        if data is None or entries is None:
            return None
        first = self._seen.setdefault((id(node.graph), id(data), tuple(sorted(entries.items()))), node.outputs[0])
        if first is node.outputs[0]:
            return None
        return ("nothing", ()) if replace_by(node, first) else None

"""Two Splits in a row, or a Slice and a Split, become one Split."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_split
from onnx_ops.passes.cleanup import is_used
from onnx_ops.passes.gating import WOULD_BE_GATED, is_gated
from onnx_ops.passes.matchers import read_exact_split
from onnx_ops.passes.outcome import Rewritten, Skip
from onnx_ops.passes.siblings import fits_gap, read_run
from onnx_ops.traversal import count_uses


class SplitOfPartPass(NodePass):
    """Merge a Split with the Split or Slice before it, along the same axis.

    1. It splits a part of another Split: its parts replace that part.
    2. It splits the output of a Slice of neighbouring elements of that axis alone: parts that nothing reads stand for
       the elements that the Slice drops, if those are at most 4 KiB.

    Nothing else reads the part or the output of the Slice.

    Given: a, b = Split(x[8], [4, 4], axis=0); c, d = Split(b, [1, 3], axis=0)
    Result: a, c, d = Split(x, [4, 1, 3], axis=0)
    """

    op_types = ("Split",)

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """See the class."""
        part = node.inputs[0] if node.inputs else None
        outer = None if part is None else part.producer()
        if part is None or outer is None or not is_operator(outer, "Slice", "Split") or outer.graph is not node.graph:
            return None
        if part.is_graph_output() or count_uses(part) != 1 or outer.inputs[0] is None:
            return None
        inner = read_exact_split(node, opset, self.sizes(part))
        data = outer.inputs[0]
        shape = self.sizes(data)
        found = self._list_pieces(outer, part, opset)
        if found is None or found[0] != inner.axis or shape is None:
            return None
        if is_gated([*outer.outputs, *node.outputs]) and not is_gated(outer.outputs) and not is_gated(node.outputs):
            raise Skip(WOULD_BE_GATED)
        axis, pieces = found
        at = [value for value, _ in pieces].index(part)
        pieces[at : at + 1] = list(zip(node.outputs, inner.sizes, strict=True))
        new = build_split(data, axis, [size for _, size in pieces], opset)
        new[-1].name = outer.name
        successors = {}
        for (value, size), output in zip(pieces, new[-1].outputs, strict=True):
            if value is not None and is_used(value):
                successors[value] = output
            else:
                self.set_value_info(output, data, (*shape[:axis], size, *shape[axis + 1 :]), node.outputs[0])
        self.replace_nodes([outer, node], new, successors, place=outer)
        return Rewritten("Split")

    def _list_pieces(
        self, outer: ir.Node, part: ir.Value, opset: int
    ) -> tuple[int, list[tuple[ir.Value | None, int]]] | None:
        """The axis that the outer node cuts and all its parts with their sizes; None if a Slice cuts otherwise.

        Raises:
            Skip: They are not known, or too much would be copied that nothing reads.
        """
        data = outer.inputs[0]
        shape = self.sizes(data)
        if outer.op_type == "Split":
            parts = read_exact_split(outer, opset, shape)
            return parts.axis, list(zip(outer.outputs, parts.sizes, strict=True))
        found = read_run(outer, opset, shape)
        if found is None or data is None:
            return None
        axis, run = found
        size = self.size(data, axis)
        assert size is not None
        if not fits_gap(size - len(run), data, axis, self.value_info, 1):
            raise Skip("merged with the Slice before it, it would copy more than 4 KiB that nothing reads")
        pieces = [(None, run.start), (part, len(run)), (None, size - run.stop)]
        return axis, [(value, length) for value, length in pieces if value is not None or length]

"""Split of a part becomes one Split with what the part was cut by."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import is_used, split_node
from onnx_ops.passes.gating import GATED, is_gated
from onnx_ops.passes.matchers import filled_parts
from onnx_ops.passes.siblings_to_split import fits_gap, sliced_run


class SplitOfPartPass(NodePass):
    """Make one Split of a Split of a part that nothing else reads, along the same axis.

    1. The part is one of another Split: its parts stand in its place.
    2. The part is kept by a Slice of neighbours on that axis alone: parts that nothing reads stand for what the Slice
       leaves away, if those are at most 4 KiB.

    Given: a, b = Split(x[8], [4, 4], axis=0); c, d = Split(b, [1, 3], axis=0)
    Result: a, c, d = Split(x, [4, 1, 3], axis=0)
    """

    op_types = ("Split",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        part = node.inputs[0] if node.inputs else None
        outer = None if part is None else part.producer()
        if part is None or outer is None or not is_operator(outer, "Slice", "Split") or outer.graph is not node.graph:
            return None
        if part.is_graph_output() or len(part.uses()) != 1 or outer.inputs[0] is None:
            return None
        inner = filled_parts(node, opset, self.sizes(part))
        data = outer.inputs[0]
        shape = self.sizes(data)
        found = self._pieces(outer, part, opset)
        if found is None or found[0] != inner.axis or shape is None:
            return None
        if is_gated([*outer.outputs, *node.outputs]) and not is_gated(outer.outputs) and not is_gated(node.outputs):
            raise NotApplied(GATED)
        axis, pieces = found
        at = [value for value, _ in pieces].index(part)
        pieces[at : at + 1] = list(zip(node.outputs, inner.sizes, strict=True))
        new = split_node(data, axis, [size for _, size in pieces], opset)
        new[-1].name = outer.name
        successors = {}
        for (value, size), output in zip(pieces, new[-1].outputs, strict=True):
            if value is not None and is_used(value):
                successors[value] = output
            else:
                self.describe(output, data, (*shape[:axis], size, *shape[axis + 1 :]), node.outputs[0])
        self.put_in_place([node, outer], new, successors, place=outer)
        return "Split", ()

    def _pieces(
        self, outer: ir.Node, part: ir.Value, opset: int
    ) -> tuple[int, list[tuple[ir.Value | None, int]]] | None:
        """The axis that the part was cut of, and all that it was cut into with its sizes; None where it is no run.

        Raises:
            NotApplied: It is not known, or too much would be copied for nothing.
        """
        data = outer.inputs[0]
        shape = self.sizes(data)
        if outer.op_type == "Split":
            parts = filled_parts(outer, opset, shape)
            return parts.axis, list(zip(outer.outputs, parts.sizes, strict=True))
        found = sliced_run(outer, opset, shape)
        if found is None or data is None:
            return None
        axis, run = found
        size = self.size(data, axis)
        assert size is not None
        if not fits_gap(size - len(run), data, axis, self.known, 1):
            raise NotApplied("a Split with the Slice before it would copy more than 4 KiB for nothing")
        pieces = [(None, run.start), (part, len(run)), (None, size - run.stop)]
        return axis, [(value, length) for value, length in pieces if value is not None or length]

"""Two Splits in a row, or a Slice and a Split, become one Split."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_split
from onnx_ops.passes.cleanup import is_used
from onnx_ops.passes.gating import WOULD_BE_GATED, Gates
from onnx_ops.passes.matchers import read_exact_split
from onnx_ops.passes.outcome import Rewritten, Skip
from onnx_ops.passes.siblings import fits_gap, read_run

_MANY = 16
"""A Split of fewer parts is built for each node that is merged with it."""
_Pieces = list[tuple[ir.Value | None, int]]
"""Parts with their sizes; None is a part that nothing reads."""


@dataclass(frozen=True)
class _Merge:
    """Nodes that become one Split.

    Attributes:
        outer: The first of them, a Split or a Slice.
        opset: Version of its operator set.
        axis: The axis that all of them cut.
        pieces: The parts that the first makes.
        gates: Whether the parts gate each other.
        inside: By part, what another of the nodes makes of it.
        nodes: The other nodes.
    """

    outer: ir.Node
    opset: int
    axis: int
    pieces: _Pieces
    gates: Gates
    inside: dict[ir.Value | None, _Pieces] = field(default_factory=dict)
    nodes: list[ir.Node] = field(default_factory=list)

    def list_pieces(self) -> _Pieces:
        """Return the parts that all of them together make."""
        found: _Pieces = []
        waiting = self.pieces[::-1]
        while waiting:
            value, size = waiting.pop()
            if value in self.inside:
                waiting += self.inside[value][::-1]
            else:
                found.append((value, size))
        return found


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

    def __init__(self) -> None:
        super().__init__()
        self._merges: dict[ir.Node, _Merge] = {}

    def apply(self, model: ir.Model) -> None:
        """Rewrite the model; see the class."""
        self._merges.clear()
        super().apply(model)
        for outer, merge in self._merges.items():
            if merge.outer is outer:
                self._build(merge)
        self._merges.clear()

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """Merge the node, or note what it is to be merged with: `apply` builds a Split of many parts only once."""
        part = node.inputs[0] if node.inputs else None
        outer = None if part is None else part.producer()
        if part is None or outer is None or not is_operator(outer, "Slice", "Split") or outer.graph is not node.graph:
            return None
        if part.is_graph_output() or count_uses(part) != 1 or outer.inputs[0] is None:
            return None
        inner = read_exact_split(node, opset, self.sizes(part))
        merge = self._merges.get(outer) or self._start(outer, part, opset)
        if merge is None or merge.axis != inner.axis:
            return None
        if not merge.gates.add(node.outputs):
            raise Skip(WOULD_BE_GATED)
        merge.inside[part] = list(zip(node.outputs, inner.sizes, strict=True))
        merge.nodes.append(node)
        if len(merge.pieces) < _MANY:
            self._build(merge)
            return Rewritten("Split")
        self._merges[outer] = self._merges[merge.outer] = self._merges[node] = merge
        return Rewritten("Split")

    def _start(self, outer: ir.Node, part: ir.Value, opset: int) -> _Merge | None:
        """Start a merge of nodes with `outer`; None if that is a Slice that cuts more than one axis.

        Raises:
            Skip: See `_list_pieces`.
        """
        found = self._list_pieces(outer, part, opset)
        if found is None or self.sizes(outer.inputs[0]) is None:
            return None
        axis, pieces = found
        return _Merge(outer, opset, axis, pieces, Gates(outer.outputs, self.edits.identities))

    def _build(self, merge: _Merge) -> None:
        """Replace nodes by the Split that they are merged to."""
        outer, pieces = merge.outer, merge.list_pieces()
        data = outer.inputs[0]
        shape = self.sizes(data)
        assert data is not None
        assert shape is not None
        new = build_split(data, merge.axis, [size for _, size in pieces], merge.opset)
        new[-1].name = outer.name
        successors = {}
        for (value, size), output in zip(pieces, new[-1].outputs, strict=True):
            if value is not None and is_used(value):
                successors[value] = output
            else:
                sizes = (*shape[: merge.axis], size, *shape[merge.axis + 1 :])
                self.set_value_info(output, data, sizes, merge.nodes[-1].outputs[0])
        self.replace_nodes([outer, *merge.nodes], new, successors, place=outer)

    def _list_pieces(self, outer: ir.Node, part: ir.Value, opset: int) -> tuple[int, _Pieces] | None:
        """Return the axis that the outer node cuts and all its parts with their sizes; None if a Slice cuts otherwise.

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

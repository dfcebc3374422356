"""Two Splits in a row, or a Slice and a Split, become one Split."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.nodes import is_valid_operator
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.builders import build_split
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.gating import WOULD_BE_GATED, would_be_gated
from onnx_ops.passes.matchers import data_of, read_exact_split
from onnx_ops.passes.outcome import SKIPS, Skip
from onnx_ops.passes.siblings import is_gap_worth_copying, read_single_axis_slice

_Pieces = list[tuple[ir.Value | None, int]]
"""Parts and their sizes. None is a part that nothing reads."""


class SplitOfPartPass(SlicingPass, name="nested", after="siblings"):
    """Merge a Split with the Split or Slice before it, along the same axis.

    1. The second Split splits a part of the first one: its parts replace that part.
    2. A Split splits the output of a Slice, which keeps neighbouring elements of the same axis and cuts no other one:
       further parts, which nothing reads, contain the elements that the Slice drops, at most 4 KiB.

    Nothing else may read the part of the first Split, or the output of the Slice.

    Given: a, b = Split(x[8], [4, 4], axis=0); c, d = Split(b, [1, 3], axis=0)
    Result: a, c, d = Split(x, [4, 1, 3], axis=0)
    Given: c, d = Split(Slice(x[8], [2], [8], [0]), [1, 5], axis=0)
    Result: a, c, d = Split(x, [2, 1, 5], axis=0)

    Fires:
        - `a, b = Split(x[8], [4, 4]); c, d = Split(b, [1, 3]); y = Concat(d, a, c, axis=0)`
        - in a Slice: `a = Slice(x[8], [2], [8], [0], [1]); b, c = Split(a, [1, 5]); y = Mul(b, c)`

    Stays:
        - on another axis: `y, b = Split(x[4, 4], [1, 3]); z, w = Split(b, [2, 2], axis=1)`
        - and read (outputs y b z w): `y, b = Split(x[8], [4, 4]); z, w = Split(b, [1, 3])`
        - in a GLU: `a, b = Split(x[8], [2, 6]); c, y = Split(b, [2, 4]); d = Sigmoid(c); z = Mul(a, d)`:
          "is multiplied by the Sigmoid of another"
        - in a far Slice: `a = Slice(x[2048], [0], [8], [0], [1]); y, z = Split(a, [1, 7])`: "more than 4 KiB"
    """

    op_types = ("Slice", "Split")

    def _apply(self) -> None:
        for outer, opset in self.analysis.nodes_of(*self.op_types):
            # A node without a graph was merged already.
            if outer.graph is not None and is_valid_operator(outer, "Slice", "Split"):
                self._merge_into(outer, opset)

    def _merge_into(self, outer: ir.Node, opset: int) -> None:
        """Merge `outer` and the Splits of its outputs, then the Splits of their parts, and report each merged Split.

        Splits along another axis are left alone without a report.
        """
        splits = [split for part in outer.outputs if (split := self._find_split(part)) is not None]
        if not splits:
            return
        try:
            axis, pending = self._list_pieces(outer, opset)
        except SKIPS as reason:
            for split in splits:
                self.skip(split, reason)
            return
        # The pieces are popped from the end. The parts of a merged Split are pushed there, and so come next.
        pending.reverse()
        pieces: _Pieces = []
        parts, merged = set(outer.outputs), []
        while pending:
            value, size = pending.pop()
            split = None if value is None else self._find_split(value)
            sizes = None if split is None else self._read_sizes(split, opset, axis)
            if split is None or not sizes:
                pieces.append((value, size))
            elif would_be_gated(parts, split.outputs, self.edits.identities):
                self.skip(split, WOULD_BE_GATED)
                pieces.append((value, size))
            else:
                parts.update(split.outputs)
                merged.append(split)
                pending += reversed(list(zip(split.outputs, sizes, strict=True)))
        if merged:
            self._replace_by_split(outer, merged, axis, pieces, opset)

    def _find_split(self, part: ir.Value) -> ir.Node | None:
        """Return the only reader of a part, if it is a valid Split in the same graph. Otherwise return None."""
        if part.is_graph_output() or count_uses(part) != 1:
            return None
        (use,) = part.uses()
        producer = part.producer()
        is_split = is_valid_operator(use.node, "Split") and use.idx == 0 and use.node not in self.value_info.invalid
        return use.node if is_split and producer is not None and producer.graph is use.node.graph else None

    def _read_sizes(self, split: ir.Node, opset: int, axis: int) -> tuple[int, ...] | None:
        """Return the part sizes of a Split along `axis`.

        Return None for a Split along another axis. Skip a Split that cannot be read, and return None.
        """
        try:
            inner = read_exact_split(split, opset, self.sizes(split.inputs[0]))
        except SKIPS as reason:
            self.skip(split, reason)
            return None
        return inner.sizes if inner.axis == axis else None

    def _replace_by_split(self, outer: ir.Node, merged: list[ir.Node], axis: int, pieces: _Pieces, opset: int) -> None:
        """Replace `outer` and the Splits that were merged with it by one Split into `pieces`."""
        data = data_of(outer)
        shape = self.sizes(data)
        assert shape is not None
        new_nodes = build_split(data, axis, [size for _, size in pieces], opset)
        new_nodes[-1].name = outer.name
        successors = {}
        for (value, size), output in zip(pieces, new_nodes[-1].outputs, strict=True):
            if value is not None and is_used(value):
                successors[value] = output
            else:
                sizes = (*shape[:axis], size, *shape[axis + 1 :])
                # Nothing reads this output, so it may be named after any of the outputs that are replaced.
                self.set_value_info(output, data, sizes, merged[-1].outputs[0])
        self.replace_nodes([outer, *merged], new_nodes, successors, position=outer)
        for split in merged:
            self.report_change(split, "Split")

    def _list_pieces(self, outer: ir.Node, opset: int) -> tuple[int, _Pieces]:
        """Return the axis that a Slice or Split cuts, and the pieces of the axis: outputs and sizes, in order.

        A piece that a Slice drops has no output. If a Slice does not keep neighbouring elements of one axis, there are
        no pieces, and the axis is -1.

        Raises:
            Skip, InvalidSlice, DynamicSlice: The sizes are not known or not valid, or a Slice drops elements for which
                `is_gap_worth_copying` is false.
        """
        data = data_of(outer)
        shape = self.sizes(data)
        if outer.op_type == "Split":
            spec = read_exact_split(outer, opset, shape)
            return spec.axis, list(zip(outer.outputs, spec.sizes, strict=True))
        axis_and_run = read_single_axis_slice(outer, opset, shape)
        if axis_and_run is None:
            return -1, []
        axis, run = axis_and_run
        size = self.size(data, axis)
        assert size is not None  # or `read_single_axis_slice` would have raised Skip
        # The merged Split also copies the elements outside the run. The merger pays only if this copy takes less time
        # than starting the Slice that is saved.
        if not is_gap_worth_copying(size - len(run), data, axis, self.value_info, saved_nodes=1):
            reason = "which are strings, more than 4 KiB or of unknown size"
            raise Skip(f"a merger with the Slice before it would copy elements that nothing reads, {reason}")
        pieces = [(None, run.start), (outer.outputs[0], len(run)), (None, size - run.stop)]
        return axis, [(value, length) for value, length in pieces if value is not None or length]

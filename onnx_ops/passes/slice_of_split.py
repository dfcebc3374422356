"""A Slice of a part of a Split becomes a Slice of the Split's input."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_slice
from onnx_ops.passes.compose_slices import compose_entries, keeps_all
from onnx_ops.passes.matchers import read_exact_split, read_slice
from onnx_ops.passes.outcome import Rewritten, Skip
from onnx_ops.passes.siblings import IN_SPLIT
from sliceport.slicing import AxisSlice


class SliceOfSplitPass(NodePass):
    """Replace a Slice of a part of a Split by one Slice of the Split's input, through Identity.

    1. The parts of the Split are known and add up to the size of its axis.

    Given: a, b = Split(x[8], axis=0); y = Slice(b, [1], [3], [0])
    Result: a, b = Split(x[8], axis=0); y = Slice(x, [5], [7], [0])

    Skipped: Slices that `SiblingsToSplitPass` replaces by a Split; what `ComposeSlicesPass` does not compose.
    """

    op_types = ("Slice",)
    spares_siblings = True

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[ir.Node, tuple[int, list[tuple[int, int]]] | str] = {}

    def apply(self, model: ir.Model) -> None:
        """Rewrite the model; see the class."""
        self._parts.clear()
        super().apply(model)
        self._parts.clear()

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """Rewrite a node that matches; see the class."""
        part = self.skip_identities(node.inputs[0]) if node.inputs else None
        split = None if part is None else part.producer()
        if part is None or split is None or not is_operator(split, "Split") or split.inputs[0] is None:
            return None
        if node in self.split_members:
            raise Skip(IN_SPLIT)
        data = split.inputs[0]
        shape = self.sizes(data)
        second = read_slice(node, opset, shape)
        if keeps_all(second, self.sizes(node.inputs[0])):
            return None  # RemoveIdentitySlicesPass takes it
        axis, bounds = self._read_parts(split, opset)
        at = part.index()
        assert at is not None
        cut = {axis: AxisSlice(*bounds[at], 1)}
        new = build_slice(data, compose_entries(cut, second, shape), opset)
        self.replace_node(node, new)
        return Rewritten("Slice")

    def _read_parts(self, split: ir.Node, opset: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the axis of a Split and the bounds of its parts, which are read once.

        Raises:
            Skip: See `read_exact_split`.
        """
        if split not in self._parts:
            try:
                parts = read_exact_split(split, opset, self.sizes(split.inputs[0]))
                self._parts[split] = parts.axis, parts.bounds
            except Skip as reason:
                self._parts[split] = str(reason)
        found = self._parts[split]
        if isinstance(found, str):
            raise Skip(found)
        return found

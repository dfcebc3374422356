"""Slice of a part of a Split becomes a Slice of what was split."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import slice_node
from onnx_ops.passes.compose_slices import compose_entries, keeps_all
from onnx_ops.passes.matchers import filled_parts, source_of, written_slice
from onnx_ops.passes.siblings_to_split import IN_SPLIT, split_members
from sliceport.slicing import AxisSlice


class SliceOfSplitPass(NodePass):
    """Make one Slice of a Slice of a part of a Split, through Identity.

    1. The parts of the Split are known and fill its axis: the part is a Slice, and both compose.

    Given: a, b = Split(x[8], axis=0); y = Slice(b, [1], [3], [0])
    Result: a, b = Split(x[8], axis=0); y = Slice(x, [5], [7], [0])

    Not rewritten: Slices that `SiblingsToSplitPass` makes a Split of; what `ComposeSlicesPass` does not compose.
    """

    op_types = ("Slice",)

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        self._split_members = split_members(model, self.known)
        super().apply(model)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        part = source_of(node.inputs[0]) if node.inputs else None
        split = None if part is None else part.producer()
        if part is None or split is None or not is_operator(split, "Split") or split.inputs[0] is None:
            return None
        if node in self._split_members:
            raise NotApplied(IN_SPLIT)
        data = split.inputs[0]
        shape = self.sizes(data)
        second = written_slice(node, opset, shape)
        if keeps_all(second, self.sizes(node.inputs[0])):
            return None  # RemoveIdentitySlicesPass takes it
        parts = filled_parts(split, opset, shape)
        cut = {parts.axis: AxisSlice(*parts.bounds[list(split.outputs).index(part)], 1)}
        new = slice_node(data, compose_entries(cut, second, shape), opset)
        if new is None:
            raise NotApplied("it would need steps, which Slice has from opset 10 on")
        new[-1].name = node.name
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return "Slice", ()

"""Slice of a Slice becomes one Slice."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import slice_node
from onnx_ops.passes.matchers import source_of, written_slice
from onnx_ops.passes.siblings_to_split import IN_SPLIT, split_members
from onnx_ops.passes.value_info import Sizes
from sliceport.slicing import AxisSlice


class ComposeSlicesPass(NodePass):
    """Make one Slice of a Slice of a Slice, through Identity.

    1. An axis that only one of them cuts keeps its entry.
    2. Both cut an axis whose size is known: what is left of it, any steps and signs.
    3. Both cut an axis of an open size, forward, all bounds from 0 up: starts add up and the nearer end counts.

    Given: y = Slice(Slice(x[10], [1], [9], [0], [2]), [1], [3], [0])
    Result: y = Slice(x, [3], [6], [0], [2])

    Not rewritten: Slices that `SiblingsToSplitPass` makes a Split of; bounds that are no constants; other bounds of an
    open axis; steps before opset 10, which has none.
    """

    op_types = ("Slice",)

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        self._split_members = split_members(model, self.known)
        super().apply(model)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        source = source_of(node.inputs[0]) if node.inputs else None
        first = None if source is None else source.producer()
        if first is None or not is_operator(first, "Slice") or not first.inputs or first.inputs[0] is None:
            return None
        if node in self._split_members:
            raise NotApplied(IN_SPLIT)
        data = first.inputs[0]
        shape = self.sizes(data)
        second = written_slice(node, opset, shape)
        if keeps_all(second, self.sizes(node.inputs[0])):
            return None  # RemoveIdentitySlicesPass takes it
        entries = compose_entries(written_slice(first, opset, shape), second, shape)
        new = slice_node(data, entries, opset)
        if new is None:
            raise NotApplied("it would need steps, which Slice has from opset 10 on")
        new[-1].name = node.name
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return "Slice", ()


def keeps_all(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> bool:
    """Whether a slice keeps all of a tensor of `shape`."""
    known = dict(enumerate(shape or ()))
    return all(entry.is_whole(known.get(axis)) for axis, entry in entries.items())


def compose_entries(
    first: Mapping[int, AxisSlice], second: Mapping[int, AxisSlice], shape: Sizes | None
) -> dict[int, AxisSlice]:
    """What one slice and another after it do to each axis of a tensor of `shape`.

    Raises:
        NotApplied: There is no one slice that does it for every size that an open axis can have.
    """
    entries = dict(first)
    for axis, entry in second.items():
        size = shape[axis] if shape is not None and axis < len(shape) else None
        made = first[axis].then(entry, size) if axis in first else entry
        if made is None:
            raise NotApplied(f"axis {axis} is open, and no one Slice does the same for every size of it")
        entries[axis] = made
    return entries

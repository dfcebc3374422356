"""A Slice of a Slice, or of a part of a Split, becomes one Slice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import onnx_ir as ir

from onnx_ops.model.nodes import is_valid_operator
from onnx_ops.model.views import Sizes
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_slice
from onnx_ops.passes.matchers import data_of, drop_whole_axes, read_exact_split, read_slice
from onnx_ops.passes.outcome import Skip
from onnx_ops.passes.siblings import IN_SPLIT
from sliceport.slicing import AxisSlice


class _ComposePass(NodePass):
    """Replace a Slice of the output of a `first_op_type` node by one Slice of that node's data."""

    op_types = ("Slice",)
    spares_siblings = True
    first_op_type: ClassVar[str]

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        source = self.edits.identities.source_of(data_of(node))
        first = source.producer()
        if not is_valid_operator(first, self.first_op_type):
            return
        if node in self.split_members:
            raise Skip(IN_SPLIT)
        data, sliced_sizes = data_of(first), self.sizes(data_of(node))
        second = read_slice(node, opset, sliced_sizes)
        if not drop_whole_axes(second, sliced_sizes):
            return  # the Slice selects everything, and RemoveIdentitySlicesPass removes it
        entries = compose_entries(self._read_first(first, source, opset), second, self.sizes(data))
        self.replace_node(node, build_slice(data, entries, opset))

    def _read_first(self, first: ir.Node, source: ir.Value, opset: int) -> dict[int, AxisSlice]:
        """Return the start, end and step of each axis that `first`, a Slice or Split, cuts to write `source`."""
        shape = self.sizes(first.inputs[0])
        if first.op_type == "Slice":
            return read_slice(first, opset, shape)
        # The Split is read once, because many Slices may cut its many parts.
        split = self.read_once(first, lambda: read_exact_split(first, opset, shape))
        index = source.index()
        assert index is not None
        return {split.axis: AxisSlice(*split.bounds[index], 1)}


class ComposeSlicesPass(_ComposePass, name="compose", after="concat"):
    """Replace a Slice of a Slice by one Slice, through Identity.

    They may cut any axes, with any steps and signs, but an open axis only forward, with bounds of 0 or more.

    1. An axis is cut by only one of them.
    2. Both cut an axis whose size is known, by any steps.
    3. Both cut an axis whose size is not known, forward and by bounds of 0 or more. The new Slice is right for every
       size.

    Given: y = Slice(Slice(x[10], [1], [9], [0], [2]), [1], [3], [0])
    Result: y = Slice(x, [3], [6], [0], [2])

    Skipped: Slices that `SiblingsToSplitPass` replaces by a Split; bounds that are not constant; negative bounds or
    steps, if both Slices cut an axis whose size is not known.

    Fires:
        - known: `a = Slice(x[9], [-1], [L], [0], [-2]); y = Slice(a, [1], [3], [0], [1])`
        - open: `a = Slice(x[n], [1], [9], [0], [1]); y = Slice(a, [2], [M], [0], [1])`
        - other axes: `a = Slice(x[n, m], [-3], [-1], [0], [1]); y = Slice(a, [-1], [L], [1], [-1])`
        - through Identity: `a = Slice(x[9], [1], [8], [0], [1]); b = Identity(a); y = Slice(b, [1], [3], [0], [1])`

    Stays:
        - open from the end: `a = Slice(x[n], [1], [-1], [0], [1]); y = Slice(a, [0], [2], [0], [1])`:
          "the size of axis 0 is not known, and no single Slice"
        - run-time: `s = Shape(x[4]); a = Slice(x, [0], s); y = Slice(a, [0], [2], [0], [1])`: "not a constant"
        - in a tile: `a = Slice(x[9], [1], [5], [0], [1]); y = Slice(a, [0], [2], [0], [1]);
          z = Slice(a, [2], [4], [0], [1])`: "one Split can replace it"
        - contested: `a = Slice(x[n], [-1], [M], [0], [-1]); y = Slice(a, [0], [2], [0], [1])`:
          "engines disagree about it"
        - contested second: `a = Slice(x[9], [0], [5], [0], [1]); y = Slice(a, [-8], [L], [0], [-1])`:
          "engines disagree about it"
    """

    first_op_type = "Slice"


class SliceOfSplitPass(_ComposePass, name="part", after="compose"):
    """Replace a Slice of a part of a Split by one Slice of the Split's input, through Identity.

    1. The sizes of the parts of the Split and of its axis are known.

    Given: a, b = Split(x[8], axis=0); y = Slice(b, [1], [3], [0])
    Result: a, b = Split(x[8], axis=0); y = Slice(x, [5], [7], [0])

    Skipped: Slices that `SiblingsToSplitPass` replaces by a Split; bounds that are not constant.

    Fires:
        - `a, b = Split(x[4], [1, 3]); y = Slice(b, [1], [2], [0], [1])`

    Stays:
        - open: `a, b = Split(x[n], [1, 3]); y = Slice(b, [1], [2], [0], [1])`: "is not known"
    """

    first_op_type = "Split"


def compose_entries(
    first: Mapping[int, AxisSlice], second: Mapping[int, AxisSlice], shape: Sizes | None
) -> dict[int, AxisSlice]:
    """Return, for each axis, the start, end and step of one slice that selects the same as two slices in a row.

    `first` cuts data of `shape`, and `second` cuts the result.

    Raises:
        Skip: The size of an axis is not known, and no single slice selects the same for every size.
    """
    entries = dict(first)
    for axis, entry in second.items():
        size = shape[axis] if shape is not None and axis < len(shape) else None
        composed = first[axis].then(entry, size) if axis in first else entry
        if composed is None:
            raise Skip(f"the size of axis {axis} is not known, and no single Slice selects the same for every size")
        entries[axis] = composed
    return entries

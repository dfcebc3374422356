"""What a chain of slices with new and dropped axes does as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.passes.compose_slices import compose_entries
from onnx_ops.passes.matchers import read_gather, read_slice, read_view_axes
from onnx_ops.passes.outcome import Skip
from onnx_ops.passes.value_info import Sizes
from sliceport.slicing import AxisSlice, resolve_axis
from sliceport.slicing.spec import normalize_axis

_NEW = -1


@dataclass
class SliceChain:
    """A chain as one Slice, the axes that are dropped after it, and those that are new.

    Attributes:
        sizes: The sizes of the chain's input, as far as they are known.
        entries: The start, end and step of each axis that is cut.
        axes: For each axis of the output, the input axis that it is, or `_NEW`.
    """

    sizes: Sizes
    entries: dict[int, AxisSlice] = field(default_factory=dict)
    axes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.axes = list(range(len(self.sizes)))

    def add(self, node: ir.Node, opset: int) -> None:
        """Add the next node.

        Raises:
            Skip: Its parameters are not known, or it does not compose with the nodes before it.
        """
        if node.op_type == "Squeeze":
            dropped = [normalize_axis(axis, len(self.axes)) for axis in read_view_axes(node, opset)]
            self.axes = [axis for i, axis in enumerate(self.axes) if i not in dropped]
        elif node.op_type == "Unsqueeze":
            rank = len(self.axes)
            added = read_view_axes(node, opset)
            for axis in sorted(normalize_axis(axis, rank + len(added)) for axis in added):
                self.axes.insert(axis, _NEW)
        elif node.op_type == "Slice":
            for axis, entry in read_slice(node, opset, self.shape).items():
                self._cut(axis, entry)
        elif node.op_type == "Gather":
            axis, kept, is_scalar = read_gather(node, opset, self.shape)
            self._cut(axis, AxisSlice.of(kept))
            if is_scalar:
                del self.axes[axis]

    @property
    def shape(self) -> Sizes:
        """The output's shape, as far as it is known."""
        return tuple([1 if axis == _NEW else self.kept_size(axis) for axis in self.axes])

    @property
    def cut(self) -> dict[int, AxisSlice]:
        """The entries of the axes that are not kept whole."""
        return {axis: entry for axis, entry in self.entries.items() if not entry.is_whole(self.sizes[axis])}

    def views(self) -> tuple[list[int], list[int]]:
        """Return the axes that a Squeeze drops from the input, and those that an Unsqueeze adds to the output after it.

        An axis of exactly one element that is dropped next to a new one takes the place of that.
        """
        axes = list(self.axes)
        dropped = [axis for axis in range(len(self.sizes)) if axis not in axes]
        for axis in list(dropped):
            at = next((i for i, other in enumerate(axes) if other > axis), len(axes))
            while at and axes[at - 1] == _NEW:
                at -= 1
            if self.kept_size(axis) == 1 and at < len(axes) and axes[at] == _NEW:
                axes[at] = axis
                dropped.remove(axis)
        return dropped, [i for i, axis in enumerate(axes) if axis == _NEW]

    def _cut(self, axis: int, entry: AxisSlice) -> None:
        source = self.axes[axis]
        if source != _NEW:
            done = {source: self.entries[source]} if source in self.entries else {}
            self.entries.update(compose_entries(done, {source: entry}, self.sizes))
        elif not entry.is_whole(1):
            raise Skip("it cuts a new axis")

    def single_index(self, dropped: Sequence[int]) -> int | None:
        """Return the index of the one element that is kept of the one axis that is cut and dropped; else None."""
        if len(dropped) != 1 or list(self.cut) != list(dropped):
            return None
        (axis,) = dropped
        size = self.sizes[axis]
        kept = range(0) if size is None else resolve_axis(*self.cut[axis], size)
        return kept[0] if len(kept) == 1 else None

    def kept_size(self, axis: int) -> int | None:
        """Return how many elements of an input axis are kept, if the number is known."""
        size, entry = self.sizes[axis], self.entries.get(axis)
        if entry is None or size is None:
            return size
        return len(resolve_axis(*entry, size))

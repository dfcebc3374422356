"""StridedSlice-1 as a custom operator: inputs data, begin, end and, optionally, strides; five masks."""

from __future__ import annotations

from typing import Any, ClassVar

import openvino as ov

from ov_ext.operators.inference import Bounds, bounds_at, check_shrunk_index, slice_axis
from ov_ext.operators.slicing_op import VERSION, Cache, SlicingOp
from sliceport.slicing import Masks, Region, StridedSliceSpec


class StridedSlice(SlicingOp):
    """OpenVINO StridedSlice-1 in Python; see `ov_ext.StridedSlice`."""

    class_type_info: ClassVar[ov.DiscreteTypeInfo] = ov.DiscreteTypeInfo("StridedSlice1", VERSION)
    index_names = ("begin", "end", "strides")

    def visit_attributes(self, visitor: Any) -> bool:
        """Write or read the masks, and connect indices that are stored as attributes; see `SlicingOp`.

        Raises:
            InvalidSlice: A mask or an index attribute is not a list of integers. (Integers other than 0 and 1 in a mask
                are refused by `check_inputs`.)
        """
        # OpenVINO cannot write an empty list. A single 0 means the same.
        lists = {name: list(mask) or [0] for name, mask in self._masks.attributes.items()}
        self.visit_lists(visitor, lists, "the masks")
        # A visitor that reads a model replaces the lists in place. A visitor that writes a model does not change them.
        self._masks = Masks.of(lists)
        super().visit_attributes(visitor)
        self._cache = Cache()  # Clones keep the old one, which has results for the old masks.
        return True

    def check_inputs(self) -> None:
        """Check the inputs and the masks; see `SlicingOp`."""
        self.check_lists()
        self._masks.check()

    def output_dimensions(
        self, sizes: list[Bounds], indices: list[list[Bounds] | None]
    ) -> list[tuple[Bounds, int | None]] | None:
        """Return the bounds of each output size, and the input axis of the same size; see `SlicingOp`."""
        count = self.entry_count()
        if count is None:  # Without a count, the mask bits that apply, and so the rank of the output, are not known.
            return None
        begin, end, strides = [*indices, [Bounds(1, 1)] * count][:3]  # strides are 1 by default
        masks = self._masks.align(count)
        output: list[tuple[Bounds, int | None]] = []
        for kind, position, axis in self._masks.entries(count, len(sizes)):
            if kind == "new":
                output.append((Bounds(1, 1), None))
            elif kind == "keep":
                output.append((sizes[axis], axis))
            elif kind == "shrink":  # The axis is dropped, so no size is added.
                check_shrunk_index(position, axis, sizes[axis], bounds_at(begin, position))
            else:
                start = None if masks.begin[position] else bounds_at(begin, position)
                stop = None if masks.end[position] else bounds_at(end, position)
                label = f"the stride of axis {axis} (entry {position})"
                output.append(slice_axis(axis, sizes, start, stop, bounds_at(strides, position), label))
        return output

    def region(self, shape: tuple[int, ...], indices: tuple[tuple[int, ...], ...]) -> Region:
        """Return the selected region; see `SlicingOp`. The indices are begin, end and, optionally, strides."""
        begin, end, *strides = indices
        return StridedSliceSpec(begin, end, strides[0] if strides else None, self._masks).resolve(shape)

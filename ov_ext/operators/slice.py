"""Slice-8 as a custom operator: inputs data, start, stop, step and, optionally, axes."""

from __future__ import annotations

from typing import ClassVar

import openvino as ov

from ov_ext.operators.inference import Bounds, bounds_at, sliced_size
from ov_ext.operators.slicing_op import VERSION, SlicingOp
from ov_ext.operators.static_values import exact_elements
from sliceport.errors import InvalidSlice
from sliceport.slicing import Region, SliceSpec


class Slice(SlicingOp):
    """OpenVINO Slice-8 in Python; see `ov_ext.Slice`. Without `inputs`, OpenVINO sets them later."""

    class_type_info: ClassVar[ov.DiscreteTypeInfo] = ov.DiscreteTypeInfo("Slice8", VERSION)
    index_names = ("start", "stop", "step", "axes")

    def check_inputs(self) -> None:
        """Check the inputs; see `SlicingOp`."""
        rank = self.get_input_partial_shape(0).rank
        self.check_lists(rank.get_length() if rank.is_static else None)
        if rank.is_static and rank.get_length() == 0:
            raise InvalidSlice("data is a scalar, but slicing needs at least one axis")

    def output_dimensions(
        self, sizes: list[Bounds], indices: list[list[Bounds] | None]
    ) -> list[tuple[Bounds, int | None]] | None:
        """Return the bounds of each output size, and the input axis of the same size; see `SlicingOp`."""
        output: list[tuple[Bounds, int | None]] = [(size, axis) for axis, size in enumerate(sizes)]
        start, stop, step, *axes_bounds = indices
        axes = self._list_axes(axes_bounds, self.entry_count(), len(sizes))
        if axes is None:  # Any axis may be sliced.
            return [(Bounds(0, size.high), None) for size in sizes]
        for i, axis in enumerate(axes):
            first, end, stride = (bounds_at(index, i) for index in (start, stop, step))
            if stride == (0, 0):
                raise InvalidSlice(f"the step of axis {axis} is 0, but it must not be")
            sliced = sliced_size(sizes[axis], first, end, stride.low if stride.is_exact else None)
            output[axis] = (sliced.bounds, axis if sliced.keeps_size else None)
        return output

    def region(self, shape: tuple[int, ...], indices: tuple[tuple[int, ...], ...]) -> Region:
        """Return the selected region; see `SlicingOp`. The indices are start, stop, step and, optionally, axes."""
        start, stop, step, *axes = indices
        return SliceSpec(start, stop, axes[0] if axes else None, step).resolve(shape)

    def _list_axes(self, axes_bounds: list[list[Bounds] | None], count: int | None, rank: int) -> list[int] | None:
        """Return the sliced axes of data of `rank`, or None if `count` or an axis is not known.

        Raise InvalidSlice if an axis is out of range or named twice, or if there are more axes than `rank`.

        Args:
            axes_bounds: A list whose only item is the bounds of the input `axes`; empty if there is no such input.
            count: The number of sliced axes.
            rank: The rank of the data.
        """
        axes = exact_elements(axes_bounds[0]) if axes_bounds else None
        if count is None or (axes_bounds and axes is None):
            return None
        # The starts and ends may be unknown. Zeros take their place, because the rules for axes do not depend on them.
        return list(SliceSpec((0,) * count, (0,) * count, axes).by_axis(rank))

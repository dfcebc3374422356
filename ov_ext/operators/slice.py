"""Slice-8 as a custom operator: inputs data, start, stop, step and, optionally, axes."""

from __future__ import annotations

from typing import ClassVar

import openvino as ov

from ov_ext.operators.inference import Bounds, bounds_at, slice_axis
from ov_ext.operators.slicing_op import VERSION, SlicingOp
from ov_ext.operators.static_values import exact_elements
from sliceport.errors import InvalidSlice
from sliceport.slicing import Region, SliceSpec


class Slice(SlicingOp):
    """OpenVINO Slice-8 in Python; see `ov_ext.Slice`."""

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
        start, stop, step, *axes_bounds = indices
        axes = exact_elements(axes_bounds[0]) if axes_bounds else None
        count = self.entry_count()
        if count is None or (axes_bounds and axes is None):  # Any axis may be sliced.
            return [(Bounds(0, size.high), None) for size in sizes]
        output: list[tuple[Bounds, int | None]] = [(size, axis) for axis, size in enumerate(sizes)]
        # The starts and ends may be unknown. Zeros take their place, because the rules for axes do not depend on them.
        for i, axis in enumerate(SliceSpec((0,) * count, (0,) * count, axes).by_axis(len(sizes))):
            first, end, stride = (bounds_at(index, i) for index in (start, stop, step))
            output[axis] = slice_axis(axis, sizes, first, end, stride, f"the step of axis {axis}")
        return output

    def region(self, shape: tuple[int, ...], indices: tuple[tuple[int, ...], ...]) -> Region:
        """Return the selected region; see `SlicingOp`. The indices are start, stop, step and, optionally, axes."""
        start, stop, step, *axes = indices
        return SliceSpec(start, stop, axes[0] if axes else None, step).resolve(shape)

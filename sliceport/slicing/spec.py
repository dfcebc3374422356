"""Specs: the parameters of slicing operators, each in the words of its standard. A spec has one `Region` per output.

The messages of errors raised here do not name the operator and node; the caller puts these in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from sliceport.errors import InvalidSlice
from sliceport.slicing.axis import INT64_MAX, INT64_MIN, compose, resolve_axis
from sliceport.slicing.masks import Entry, Masks
from sliceport.slicing.region import Region


def normalize_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front.

    Raises:
        InvalidSlice: `axis` is outside `[-rank, rank - 1]`.
    """
    if not -rank <= axis < rank:
        raise InvalidSlice(f"axis {axis} is out of range for a tensor of rank {rank}")
    return axis % rank


class AxisSlice(NamedTuple):
    """The bounds and the step of a slice on one axis.

    Attributes:
        start: First index, counted from the end if negative.
        end: Exclusive end, counted from the end if negative.
        step: The step, not 0.
    """

    start: int
    end: int
    step: int

    @classmethod
    def of(cls, selected: range) -> AxisSlice:
        """Return the slice that selects these indices.

        >>> AxisSlice.of(range(3, -1, -1)).end == INT64_MIN
        True
        """
        # A backward range down to index 0 stops at -1, but an end of -1 would mean the last element.
        return cls(selected.start, selected.stop if selected.stop >= 0 else INT64_MIN, selected.step)

    def within(self, size: int | None) -> AxisSlice:
        """Return a slice that selects the same elements of an axis of `size`, with bounds that fit the axis.

        Each bound is an index of the axis, or the position just before its first or just after its last element. A
        slice of one index gets step 1, and an empty slice becomes `0:0`. A backward slice down to index 0 ends at
        `-size - 1`, because an end of -1 would mean the last index. If the size is unknown (None), the slice changes
        only if `is_empty_for_every_size` is true: it becomes `0:0`.

        >>> AxisSlice(-1, INT64_MIN, -2).within(5)
        AxisSlice(start=4, end=-6, step=-2)
        >>> AxisSlice(1, 2, INT64_MAX).within(5)
        AxisSlice(start=1, end=2, step=1)
        """
        if size is None:
            return AxisSlice(0, 0, 1) if self.is_empty_for_every_size() else self
        start, end, step = AxisSlice.of(resolve_axis(*self, size))
        return AxisSlice(start, max(end, -size - 1), step)

    def rows(self, size: int) -> AxisSlice | None:
        """Return a slice of step 1 that contains the selected elements and can be reshaped to rows of `step` elements.

        Each row has one selected element, always at the same position. The step must be positive. Return None if the
        axis is too short for whole rows.

        >>> AxisSlice(1, 6, 2).rows(6)
        AxisSlice(start=0, end=6, step=1)
        >>> AxisSlice(0, 5, 2).rows(5) is None
        True
        """
        selected = resolve_axis(*self, size)
        length = len(selected) * self.step
        # The rows begin at the first selected element, or earlier if they would otherwise end after the axis.
        first = min(selected.start, size - length)
        return AxisSlice(first, first + length, 1) if first >= 0 else None

    def is_whole(self, size: int | None) -> bool:
        """Return whether the slice selects all of an axis in order.

        For an unknown size (None), return True only for `0:INT64_MAX:1`.
        """
        if size is None:
            return self == (0, INT64_MAX, 1)
        return resolve_axis(*self, size) == range(size)

    def is_empty_for_every_size(self) -> bool:
        """Return whether this is a forward slice whose bounds alone show that it is empty, whatever the axis's size.

        The bounds show this if both count from the same side of the axis, and the start is not before the end. If they
        count from different sides, only an end of 0 is recognized.
        """
        is_crossed = self.start >= self.end and (self.start < 0) == (self.end < 0)
        return self.step > 0 and (self.end == 0 or is_crossed)

    def then(self, following: AxisSlice, size: int | None) -> AxisSlice | None:
        """Return the one slice that is equal to this slice followed by `following`.

        If the size is unknown (None), return a slice that is right for every size, or None if one of the slices goes
        backward or counts from the end, or if the start or step would exceed INT64_MAX.

        >>> AxisSlice(1, 9, 2).then(AxisSlice(1, 3, 1), 10)
        AxisSlice(start=3, end=6, step=2)
        >>> AxisSlice(1, 9, 2).then(AxisSlice(1, 3, 1), None)
        AxisSlice(start=3, end=7, step=2)
        """
        if size is not None:
            first = resolve_axis(*self, size)
            return AxisSlice.of(compose(first, resolve_axis(*following, len(first))))
        start, step = self.start + following.start * self.step, self.step * following.step
        if min(*self, *following) < 0 or max(start, step) > INT64_MAX:
            return None
        # Either slice may end the result. `following.end` is a position in this slice, so it becomes an index first.
        following_end = self.start + following.end * self.step
        return AxisSlice(start, min(self.end, following_end), step)


def cut_shape(slices: Mapping[int, AxisSlice], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a tensor of `shape` after slicing. `slices` maps axes, counted from the front, to slices.

    >>> cut_shape({1: AxisSlice(0, 9, 2)}, (4, 5))
    (4, 3)
    """
    return tuple([len(resolve_axis(*slices[i], size)) if i in slices else size for i, size in enumerate(shape)])


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """ONNX Slice-1/10/11/13 and OpenVINO Slice-8: bounds and steps for some axes, in any order, each axis at most once.

    Attributes:
        starts: First index per entry.
        ends: Exclusive end per entry.
        axes: The axis of each entry, counted from the end if negative; None for the first `len(starts)` axes.
        steps: Step per entry; None for all 1.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None

    def check(self, rank: int) -> list[int]:
        """Check that the slice is valid for a tensor of `rank`, and return the axis of each element of `starts`.

        Raises:
            InvalidSlice: Lengths differ, there are more entries than axes, an axis is out of range or named twice, a
                step is 0, or data is a scalar.

        >>> SliceSpec(starts=(0,), ends=(9,), steps=(0,)).check(rank=2)
        Traceback (most recent call last):
        sliceport.errors.InvalidSlice: the step of axis 0 is 0, but it must not be
        """
        if rank == 0:
            raise InvalidSlice("data is a scalar, but slicing needs at least one axis")
        count = len(self.starts)
        for name, values in (("ends", self.ends), ("axes", self.axes), ("steps", self.steps)):
            if values is not None and len(values) != count:
                raise InvalidSlice(
                    f"{name} and starts must have the same length, got {name}={list(values)} and "
                    f"starts={list(self.starts)}"
                )
        if count > rank and self.axes is None:
            raise InvalidSlice(f"{count} starts are more than the tensor's rank {rank}")
        normalized: list[int] = []
        for i in range(count):
            axis = i if self.axes is None else normalize_axis(self.axes[i], rank)
            if self.axes is not None and axis in normalized:
                raise InvalidSlice(f"axis {axis} is named twice in axes={list(self.axes)}")
            if self.steps is not None and self.steps[i] == 0:
                raise InvalidSlice(f"the step of axis {axis} is 0, but it must not be")
            normalized.append(axis)
        return normalized

    def by_axis(self, rank: int | None) -> dict[int, AxisSlice]:
        """Return the bounds and the step of each axis that the slice names, by axis counted from the front.

        Args:
            rank: Rank of the tensor; None if unknown. Negative axes need a known rank.

        Raises:
            InvalidSlice: A rule of `check` is broken, or an axis is negative and the rank unknown.

        >>> SliceSpec(starts=(0,), ends=(2,), axes=(-1,)).by_axis(3)
        {2: AxisSlice(start=0, end=2, step=1)}
        """
        if rank is None:
            axes = tuple(range(len(self.starts))) if self.axes is None else self.axes
            if any(axis < 0 for axis in axes):
                raise InvalidSlice(f"negative axes need a known rank, got axes={list(axes)} for data of unknown rank")
            # The axes are not negative, so the result is the same for every rank that includes them.
            rank = max(axes, default=0) + 1
        steps = self.steps or (1,) * len(self.starts)
        return dict(zip(self.check(rank), map(AxisSlice, self.starts, self.ends, steps), strict=True))

    def resolve(self, shape: Sequence[int]) -> Region:
        """Return the region selected from a tensor of `shape`.

        Raises:
            InvalidSlice: A rule of `check` is broken, or a sliced axis has more than INT64_MAX elements.

        >>> SliceSpec(starts=(0, 1), ends=(2, 9), axes=(1, -3), steps=(1, 2)).resolve((4, 3, 2)).output_shape
        (2, 2, 2)
        """
        ranges = list(map(range, shape))
        for axis, bounds in self.by_axis(len(shape)).items():
            ranges[axis] = resolve_axis(*bounds, shape[axis])
        return Region.of(shape, ranges)


@dataclass(frozen=True, slots=True)
class SplitSpec:
    """ONNX Split and OpenVINO Split-1/VariadicSplit-1: consecutive parts of one axis.

    Attributes:
        axis: The axis, counted from the end if negative.
        sizes: Size of each part, in order; parts may be empty.
    """

    axis: int
    sizes: tuple[int, ...]

    @classmethod
    def evenly(cls, axis: int, shape: Sequence[int], parts: int, *, uneven_last: bool = False) -> SplitSpec:
        """Return a split of an axis of a tensor of `shape` into `parts` equal parts.

        With `uneven_last`, as for `num_outputs` of ONNX Split-18, the last part may be smaller. All other parts then
        have the size of the axis divided by `parts`, rounded up.

        Raises:
            InvalidSlice: The axis is out of range, `parts` is below 1, or the axis cannot be divided into such parts.

        >>> SplitSpec.evenly(0, (7,), 3, uneven_last=True).sizes
        (3, 3, 1)
        """
        axis = normalize_axis(axis, len(shape))
        dim = shape[axis]
        if parts < 1:
            raise InvalidSlice(f"the number of outputs must be at least 1, got {parts}")
        chunk = -(-dim // parts) if uneven_last else dim // parts  # rounded up, or down
        last = dim - chunk * (parts - 1)
        if not uneven_last and last != chunk:
            raise InvalidSlice(
                f"axis {axis} has {dim} elements, which do not divide into {parts} equal parts", rule="uneven"
            )
        if last < 0:
            raise InvalidSlice(
                f"axis {axis} has {dim} elements, too few for {parts} parts of {chunk}, even with a smaller last part"
            )
        return cls(axis, (chunk,) * (parts - 1) + (last,))

    @classmethod
    def with_rest(cls, axis: int, shape: Sequence[int], sizes: Sequence[int]) -> SplitSpec:
        """Return a split of a tensor of `shape`; one size may be -1, which stands for the rest of the axis.

        Only `resolve` checks that the sizes fit the axis.

        Raises:
            InvalidSlice: The axis is out of range.

        >>> SplitSpec.with_rest(-1, (9,), (2, -1, 3)).sizes
        (2, 4, 3)
        """
        axis = normalize_axis(axis, len(shape))
        remaining = shape[axis] - sum(sizes) - 1  # the -1 itself is part of the sum
        has_one_rest = list(sizes).count(-1) == 1  # several -1 stay, and `resolve` refuses them as negative sizes
        return cls(axis, tuple([remaining if has_one_rest and size == -1 else size for size in sizes]))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The start and the stop index of each part."""
        return list(pairwise(accumulate(self.sizes, initial=0)))

    def resolve(self, shape: Sequence[int]) -> tuple[Region, ...]:
        """Return the region of each part of a tensor of `shape`.

        Raises:
            InvalidSlice: The axis is out of range, a size is negative, or the sizes do not sum to the axis size.

        >>> tuple(region.output_shape for region in SplitSpec(-1, (1, 0, 2)).resolve((2, 3)))
        ((2, 1), (2, 0), (2, 2))
        """
        axis = normalize_axis(self.axis, len(shape))
        if any(size < 0 for size in self.sizes):
            raise InvalidSlice(f"split sizes must not be negative, got split={list(self.sizes)}", rule="sizes")
        if sum(self.sizes) != shape[axis]:
            raise InvalidSlice(
                f"split={list(self.sizes)} sums to {sum(self.sizes)}, but axis {axis} has {shape[axis]} elements",
                rule="sizes",
            )
        ranges = list(map(range, shape))
        regions = []
        for start, stop in self.bounds:
            ranges[axis] = range(start, stop)
            regions.append(Region.of(shape, ranges))
        return tuple(regions)


@dataclass(frozen=True, slots=True)
class StridedSliceSpec:
    """OpenVINO StridedSlice-1, with the meaning that OpenVINO's own shape inference gives it.

    Attributes:
        begin: First index per entry.
        end: Exclusive end per entry.
        strides: Step per entry; None for all 1.
        masks: The five masks; by default every entry slices an axis.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    masks: Masks = field(default_factory=Masks)

    def check(self, sizes: Sequence[int | None]) -> list[Entry]:
        """Check that the slice is valid for a tensor of these sizes, and return its `entries`.

        Args:
            sizes: Size of each input axis; None for an unknown size.

        Raises:
            InvalidSlice: A rule of `entries` is broken, the stride of a sliced axis is 0, or the index of a shrunk axis
                is out of range.

        >>> StridedSliceSpec((2,), (0,), masks=Masks(shrink_axis=(1,))).check((2, None))
        Traceback (most recent call last):
        sliceport.errors.InvalidSlice: entry 0 shrinks axis 0 to index 2, but the axis has 2 elements
        """
        entries = self.entries(len(sizes))
        for kind, i, axis in entries:
            if kind == "slice" and self.strides is not None and self.strides[i] == 0:
                raise InvalidSlice(f"the stride of axis {axis} (entry {i}) is 0, but it must not be")
            if kind == "shrink":
                begin, size = self.begin[i], sizes[axis]
                limit = INT64_MAX if size is None else size
                if not -limit <= begin < limit:
                    actual = "no axis is that long" if size is None else f"the axis has {size} elements"
                    raise InvalidSlice(f"entry {i} shrinks axis {axis} to index {begin}, but {actual}")
        return entries

    def entries(self, rank: int) -> list[Entry]:
        """Return the entries, each with the axis that it consumes, for a tensor of `rank`; see `Masks.entries`.

        Raises:
            InvalidSlice: Lengths differ, or a rule of `Masks.entries` is broken.
        """
        lengths = [len(values) for values in (self.begin, self.end, self.strides) if values is not None]
        if len(set(lengths)) > 1:
            raise InvalidSlice(f"begin, end and strides must have the same length, got lengths {lengths}")
        return self.masks.entries(len(self.begin), rank)

    def bounds(self, position: int) -> tuple[int | None, int | None, int]:
        """Return begin, end and stride of the entry at `position`; begin or end is None if its mask bit is set.

        >>> StridedSliceSpec((1,), (5,), (-2,), Masks(end=(1,))).bounds(0)
        (1, None, -2)
        """
        begin_mask, end_mask = self.masks.begin, self.masks.end  # missing bits are 0
        return (
            None if position < len(begin_mask) and begin_mask[position] else self.begin[position],
            None if position < len(end_mask) and end_mask[position] else self.end[position],
            1 if self.strides is None else self.strides[position],
        )

    def resolve(self, shape: Sequence[int]) -> Region:
        """Return the region selected from a tensor of `shape`.

        Raises:
            InvalidSlice: A rule of `check` is broken, or a sliced axis has more than INT64_MAX elements.

        >>> spec = StridedSliceSpec((1, 0), (0, 0), masks=Masks(new_axis=(0, 1), shrink_axis=(1,)))
        >>> spec.resolve((2, 3)).output_shape
        (1, 3)
        """
        ranges = list(map(range, shape))
        output_shape: list[int] = []
        for kind, i, axis in self.check(shape):
            if kind == "new":
                output_shape.append(1)
            elif kind == "keep":
                output_shape.append(shape[axis])
            elif kind == "shrink":
                index = self.begin[i] % shape[axis]  # a negative index counts from the end
                ranges[axis] = range(index, index + 1)
            else:
                ranges[axis] = resolve_axis(*self.bounds(i), shape[axis])
                output_shape.append(len(ranges[axis]))
        return Region(tuple(shape), tuple(ranges), tuple(output_shape))

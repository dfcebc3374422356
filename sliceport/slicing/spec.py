"""What is written: each standard's slicing operator in that standard's words, resolved to a `Region`.

Messages raised here lack the operator and node; whoever knows them puts them in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from sliceport.errors import InvalidSlice
from sliceport.slicing.axis import INT64_MAX, INT64_MIN, compose, resolve_axis
from sliceport.slicing.region import Region


def normalize_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front.

    Raises:
        InvalidSlice: It is outside `[-rank, rank - 1]`.
    """
    if not -rank <= axis < rank:
        raise InvalidSlice(f"axis {axis} is out of range for a tensor of rank {rank}")
    return axis % rank


class AxisSlice(NamedTuple):
    """What a slice does to one axis.

    Attributes:
        start: First index, negative from the end.
        end: First index not kept, negative from the end.
        step: The step, not 0.
    """

    start: int
    end: int
    step: int

    @classmethod
    def of(cls, kept: range) -> AxisSlice:
        """The slice that keeps these indices.

        >>> AxisSlice.of(range(3, -1, -1)).end == INT64_MIN
        True
        """
        return cls(kept.start, kept.stop if kept.stop >= 0 else INT64_MIN, kept.step)

    def is_whole(self, size: int | None) -> bool:
        """Whether all of an axis is kept in its order; of an open size (None): whatever the size."""
        if size is None:
            return self == (0, INT64_MAX, 1)
        return resolve_axis(*self, size) == range(size)

    def then(self, following: AxisSlice, size: int | None) -> AxisSlice | None:
        """The one slice that does what this and another after it do, if there is one.

        Of an open size (None) it is one that holds for every size: both go forward and count from the front.

        >>> AxisSlice(1, 9, 2).then(AxisSlice(1, 3, 1), 10)
        AxisSlice(start=3, end=6, step=2)
        >>> AxisSlice(1, 9, 2).then(AxisSlice(1, 3, 1), None)
        AxisSlice(start=3, end=7, step=2)
        """
        if size is not None:
            first = resolve_axis(*self, size)
            kept = compose(first, resolve_axis(*following, len(first)))
            return AxisSlice.of(kept)
        start, step = self.start + following.start * self.step, self.step * following.step
        if min(*self, *following) < 0 or max(start, step) > INT64_MAX:
            return None
        return AxisSlice(start, min(self.end, self.start + following.end * self.step), step)


def cut_shape(entries: Mapping[int, AxisSlice], shape: Sequence[int]) -> tuple[int, ...]:
    """What is left of a shape.

    >>> cut_shape({1: AxisSlice(0, 9, 2)}, (4, 5))
    (4, 3)
    """
    return tuple([len(resolve_axis(*entries[i], size)) if i in entries else size for i, size in enumerate(shape)])


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """ONNX Slice-1/10/11/13 and OpenVINO Slice-8: bounds and steps for some axes, each once and in any order.

    Attributes:
        starts: First index per entry.
        ends: First index not kept, per entry.
        axes: The axis of each entry, negative from the end; None for the first `len(starts)` axes.
        steps: Step per entry; None for all 1.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None

    def by_axis(self, rank: int | None) -> dict[int, AxisSlice]:
        """What is done to each axis that is named.

        Args:
            rank: Rank of the tensor; None if it is not known, which negative axes do not allow.

        Raises:
            InvalidSlice: Lengths differ, an axis is out of range or named twice, or a step is 0.

        >>> SliceSpec(starts=(0,), ends=(2,), axes=(-1,)).by_axis(3)
        {2: AxisSlice(start=0, end=2, step=1)}
        """
        axes = tuple(range(len(self.starts))) if self.axes is None else self.axes
        if rank is None:
            if any(axis < 0 for axis in axes):
                raise InvalidSlice("a negative axis needs a rank to be counted from")
            rank = max(axes, default=0) + 1
        self.resolve((1,) * rank)  # the checks
        steps = self.steps or (1,) * len(self.starts)
        entries = map(AxisSlice, self.starts, self.ends, steps)
        return dict(zip([normalize_axis(axis, rank) for axis in axes], entries, strict=True))

    def resolve(self, shape: Sequence[int]) -> Region:
        """The region selected from a tensor of `shape`.

        Raises:
            InvalidSlice: Lengths differ, an axis is out of range or named twice, a step is 0, or data is a scalar.

        >>> SliceSpec(starts=(0, 1), ends=(2, 9), axes=(1, -3), steps=(1, 2)).resolve((4, 3, 2)).output_shape
        (2, 2, 2)
        """
        rank = len(shape)
        if rank == 0:
            raise InvalidSlice("data is a scalar, but slicing needs at least one axis")
        count = len(self.starts)
        if len(self.ends) != count:
            raise InvalidSlice(
                f"starts and ends must have the same length, got starts={list(self.starts)} and ends={list(self.ends)}"
            )
        if self.axes is not None and len(self.axes) != count:
            raise InvalidSlice(
                f"axes and starts must have the same length, got axes={list(self.axes)} and starts={list(self.starts)}"
            )
        if self.steps is not None and len(self.steps) != count:
            raise InvalidSlice(
                f"steps and starts must have the same length, got steps={list(self.steps)} and "
                f"starts={list(self.starts)}"
            )
        if count > rank and self.axes is None:
            raise InvalidSlice(f"{count} starts are more than the tensor's rank {rank}")
        ranges = list(map(range, shape))
        seen: set[int] = set()
        for i in range(count):
            axis = i if self.axes is None else normalize_axis(self.axes[i], rank)
            if axis in seen:
                raise InvalidSlice(f"axis {axis} is named twice in axes={list(self.axes or ())}")
            seen.add(axis)
            step = 1 if self.steps is None else self.steps[i]
            if step == 0:
                raise InvalidSlice(f"the step of axis {axis} is 0, but it must not be")
            ranges[axis] = resolve_axis(self.starts[i], self.ends[i], step, shape[axis])
        return Region.of(shape, ranges)


@dataclass(frozen=True, slots=True)
class SplitSpec:
    """ONNX Split and OpenVINO Split-1/VariadicSplit-1: consecutive parts of one axis.

    Attributes:
        axis: The axis, negative from the end.
        sizes: Size of each part, in order; parts may be empty.
    """

    axis: int
    sizes: tuple[int, ...]

    @classmethod
    def evenly(cls, axis: int, shape: Sequence[int], parts: int, *, uneven_last: bool = False) -> SplitSpec:
        """`parts` equal parts of an axis of a tensor of `shape`.

        With `uneven_last` (ONNX Split-18's `num_outputs`) each part has `ceil(dim / parts)` elements and the last one
        what is left; without it the parts must be equal.

        Raises:
            InvalidSlice: The axis does not divide so.

        >>> SplitSpec.evenly(0, (7,), 3, uneven_last=True).sizes
        (3, 3, 1)
        """
        axis = normalize_axis(axis, len(shape))
        dim = shape[axis]
        if parts < 1:
            raise InvalidSlice(f"the number of outputs must be at least 1, got {parts}")
        chunk = -(-dim // parts) if uneven_last else dim // parts
        last = dim - chunk * (parts - 1)
        if not uneven_last and last != chunk:
            raise InvalidSlice(f"axis {axis} has {dim} elements, which do not divide into {parts} equal parts")
        if last < 0:
            raise InvalidSlice(
                f"axis {axis} has {dim} elements, too few for {parts} parts of {chunk} with a smaller last one"
            )
        return cls(axis, (chunk,) * (parts - 1) + (last,))

    @classmethod
    def with_rest(cls, axis: int, shape: Sequence[int], sizes: Sequence[int]) -> SplitSpec:
        """Parts of which one may be -1: what the others leave of the axis of a tensor of `shape`.

        Raises:
            InvalidSlice: The axis is out of range.

        >>> SplitSpec.with_rest(-1, (7,), (2, -1, 1)).sizes
        (2, 4, 1)
        """
        axis = normalize_axis(axis, len(shape))
        rest = shape[axis] - sum(sizes) - 1
        is_open = list(sizes).count(-1) == 1
        return cls(axis, tuple([rest if is_open and size == -1 else size for size in sizes]))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The first index of each part, and the first after it."""
        return list(pairwise(accumulate(self.sizes, initial=0)))

    def resolve(self, shape: Sequence[int]) -> tuple[Region, ...]:
        """The region of each part of a tensor of `shape`.

        Raises:
            InvalidSlice: The axis is out of range, a size is negative, or the sizes do not sum to the axis.

        >>> [r.output_shape for r in SplitSpec(-1, (1, 0, 2)).resolve((2, 3))]
        [(2, 1), (2, 0), (2, 2)]
        """
        axis = normalize_axis(self.axis, len(shape))
        if any(size < 0 for size in self.sizes):
            raise InvalidSlice(f"split sizes must not be negative, got split={list(self.sizes)}")
        if sum(self.sizes) != shape[axis]:
            raise InvalidSlice(
                f"split={list(self.sizes)} sums to {sum(self.sizes)}, but axis {axis} has {shape[axis]} elements"
            )
        ranges = list(map(range, shape))
        regions = []
        for start, stop in self.bounds:
            ranges[axis] = range(start, stop)
            regions.append(Region.of(shape, ranges))
        return tuple(regions)


class Entry(NamedTuple):
    """One entry of a StridedSlice beside the input axis it consumes.

    Attributes:
        kind: `slice` keeps the axis, `shrink` drops it, `new` emits an axis of size 1 and consumes none, `keep` is an
            axis that no entry names (an ellipsis, or what is left at the end).
        position: Position in begin, end, strides and the masks; -1 for `keep`.
        axis: Input axis; -1 for `new`.
    """

    kind: Literal["slice", "shrink", "new", "keep"]
    position: int
    axis: int


MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
"""The masks of a StridedSlice, in the order of the specification."""


@dataclass(frozen=True, slots=True)
class StridedSliceSpec:
    """OpenVINO StridedSlice-1, as OpenVINO's own shape inference reads it.

    Masks are aligned with the entries of `begin`, not with the axes. A mask may be shorter than `begin` (missing bits
    are 0) or longer (further bits are ignored), as the specification's text says. Precedence at one entry: ellipsis,
    then new axis, then shrink, then an ordinary slice.

    Attributes:
        begin: First index per entry.
        end: First index not kept, per entry.
        strides: Step per entry; None for all 1.
        begin_mask: 1 where `begin` is ignored and the axis starts at its beginning in the direction of the stride.
        end_mask: 1 where `end` is ignored; a backward slice then includes element 0.
        new_axis_mask: 1 where a new axis of size 1 comes out.
        shrink_axis_mask: 1 where element `begin` alone is taken and the axis is dropped; `end`, the stride and the
            begin and end masks are ignored there.
        ellipsis_mask: 1 at the one entry that stands for all the axes that no other entry names.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    begin_mask: tuple[int, ...] = ()
    end_mask: tuple[int, ...] = ()
    new_axis_mask: tuple[int, ...] = ()
    shrink_axis_mask: tuple[int, ...] = ()
    ellipsis_mask: tuple[int, ...] = ()

    def entries(self, rank: int) -> list[Entry]:
        """The entries aligned with the axes of a tensor of `rank`, in output order; all `rank` axes are named.

        Raises:
            InvalidSlice: A mask holds something other than 0 and 1, there are two ellipses, or too many entries.
        """
        count = len(self.begin)
        for name in MASKS:
            mask = getattr(self, name)
            if any(bit not in (0, 1) for bit in mask):
                raise InvalidSlice(f"{name} must hold only 0 and 1, got {list(mask)}")
        ellipses = [i for i in range(count) if _bit(self.ellipsis_mask, i)]
        if len(ellipses) > 1:
            raise InvalidSlice(f"at most one ellipsis is allowed, got ellipsis_mask={list(self.ellipsis_mask)}")
        consuming = sum(1 for i in range(count) if i not in ellipses and not _bit(self.new_axis_mask, i))
        if consuming > rank:
            raise InvalidSlice(f"{consuming} entries name an axis, but the tensor has rank {rank}")
        aligned: list[Entry] = []
        axis = 0
        for i in range(count):
            if i in ellipses:
                aligned += [Entry("keep", -1, a) for a in range(axis, axis + rank - consuming)]
                axis += rank - consuming
            elif _bit(self.new_axis_mask, i):
                aligned.append(Entry("new", i, -1))
            else:
                aligned.append(Entry("shrink" if _bit(self.shrink_axis_mask, i) else "slice", i, axis))
                axis += 1
        return aligned + [Entry("keep", -1, a) for a in range(axis, rank)]

    def resolve(self, shape: Sequence[int]) -> Region:
        """The region selected from a tensor of `shape`.

        Raises:
            InvalidSlice: Lengths differ, masks or entries break the rules of `entries`, a stride is 0, or a shrunk
                index is out of range.

        >>> StridedSliceSpec((1, 0), (0, 0), new_axis_mask=(0, 1), shrink_axis_mask=(1, 0)).resolve((2, 3)).output_shape
        (1, 3)
        """
        count = len(self.begin)
        if len(self.end) != count or (self.strides is not None and len(self.strides) != count):
            lengths = [count, len(self.end)] + ([] if self.strides is None else [len(self.strides)])
            raise InvalidSlice(f"begin, end and strides must have the same length, got lengths {lengths}")
        ranges = list(map(range, shape))
        output_shape: list[int] = []
        for kind, i, axis in self.entries(len(shape)):
            if kind == "new":
                output_shape.append(1)
            elif kind == "keep":
                output_shape.append(shape[axis])
            elif kind == "shrink":
                ranges[axis] = self._shrunk(i, axis, shape[axis])
            else:
                ranges[axis] = self._sliced(i, axis, shape[axis])
                output_shape.append(len(ranges[axis]))
        return Region(tuple(shape), tuple(ranges), tuple(output_shape))

    def single(self, position: int) -> StridedSliceSpec:
        """One entry by itself, as if it were the only one."""
        masks = {name: (_bit_of(getattr(self, name), position),) for name in MASKS}
        strides = None if self.strides is None else (self.strides[position],)
        return StridedSliceSpec((self.begin[position],), (self.end[position],), strides, **masks)

    def _shrunk(self, i: int, axis: int, size: int) -> range:
        begin = self.begin[i]
        if not -size <= begin < size:
            raise InvalidSlice(f"entry {i} shrinks axis {axis} to index {begin}, but the axis has {size} elements")
        return range(begin % size, begin % size + 1)

    def _sliced(self, i: int, axis: int, size: int) -> range:
        stride = 1 if self.strides is None else self.strides[i]
        if stride == 0:
            raise InvalidSlice(f"the stride of axis {axis} (entry {i}) is 0, but it must not be")
        begin = None if _bit(self.begin_mask, i) else self.begin[i]
        end = None if _bit(self.end_mask, i) else self.end[i]
        return resolve_axis(begin, end, stride, size)


def _bit_of(mask: Sequence[int], i: int) -> int:
    return mask[i] if i < len(mask) else 0


def _bit(mask: Sequence[int], i: int) -> bool:
    return _bit_of(mask, i) == 1

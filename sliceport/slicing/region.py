"""A region: the elements that an operator selects from a tensor of known shape, in one form for all standards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from sliceport.errors import InvalidSlice
from sliceport.slicing.axis import as_slice, canonicalize, coalesce, compose


@dataclass(frozen=True, slots=True)
class Region:
    """The elements that a slicing operator selects, in output order, and the shape of the output.

    Element `k` of the output, counted in row-major order, is element `k` of the grid `ranges[0] x ranges[1] x ...`,
    counted in row-major order. New and dropped axes always have size 1, so they change only `output_shape`. If anything
    is selected, the output sizes above 1 are the lengths of the ranges longer than 1, in the same order.

    Guarantees:
      * two regions of the same shapes are equal exactly when every output index selects the same input element;
      * a region whose output shape contains 0 has only empty ranges, whatever ranges were passed.

    Attributes:
        input_shape: Size of each input axis.
        ranges: The indices selected on each input axis, in output order (`canonicalize`d).
        output_shape: Size of each output axis.

    Raises:
        InvalidSlice: The number of ranges is not the number of input axes, a range is not within its axis, or the
            lengths of the ranges do not fit the output shape.

    >>> x_1_newaxis = Region((2, 3), (range(1, 2), range(3)), (1, 3))
    >>> x_1_newaxis == Region((2, 3), (range(1, 2), range(0, 3)), (1, 3))
    True
    """

    input_shape: tuple[int, ...]
    ranges: tuple[range, ...]
    output_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.ranges) != len(self.input_shape):
            raise InvalidSlice(f"{len(self.input_shape)} input axes need one range each, got {len(self.ranges)} ranges")
        if 0 in self.output_shape or not all(self.ranges):
            if 0 not in self.output_shape:
                raise InvalidSlice(f"ranges {self.ranges} select nothing, but the output shape is {self.output_shape}")
            # Equal selections must be equal values, so a region that selects nothing has one spelling.
            object.__setattr__(self, "ranges", (range(0),) * len(self.input_shape))
            return
        for size, selected in zip(self.input_shape, self.ranges, strict=True):
            if not (0 <= selected[0] < size and 0 <= selected[-1] < size):
                raise InvalidSlice(f"{selected} is not within an axis of {size} elements")
        lengths = [length for length in map(len, self.ranges) if length != 1]
        if lengths != [size for size in self.output_shape if size != 1]:
            raise InvalidSlice(f"ranges of lengths {lengths} do not fit the output shape {self.output_shape}")
        object.__setattr__(self, "ranges", tuple(map(canonicalize, self.ranges)))

    @classmethod
    def of(cls, input_shape: Sequence[int], ranges: Sequence[range]) -> Region:
        """Return the region that keeps every axis: the output shape consists of the lengths of the ranges.

        Raises:
            InvalidSlice: The number of ranges is not the number of axes, or a range is not within its axis.
        """
        return cls(tuple(input_shape), tuple(ranges), tuple(map(len, ranges)))

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Region:
        """Return the region that selects a whole tensor unchanged."""
        return cls.of(shape, tuple(map(range, shape)))

    @property
    def slices(self) -> tuple[slice, ...]:
        """Index that selects the region from an array of `input_shape`; reshape the result to `output_shape`.

        >>> Region((2, 3), (range(1, 2), range(2, -1, -1)), (3,)).slices
        (slice(1, 2, 1), slice(2, None, -1))
        """
        return tuple(map(as_slice, self.ranges))

    @property
    def size(self) -> int:
        """Number of elements selected."""
        return prod(self.output_shape)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is selected."""
        return 0 in self.output_shape

    @property
    def selects_all(self) -> bool:
        """Whether the region selects all elements in order, so that input and output may share a buffer.

        The result has no meaning for an empty region, because all its ranges are empty.
        """
        return all(selected == range(size) for selected, size in zip(self.ranges, self.input_shape, strict=True))

    @property
    def is_identity(self) -> bool:
        """Whether the output equals the input, shape included."""
        return self.output_shape == self.input_shape and (self.is_empty or self.selects_all)

    def then(self, following: Region) -> Region:
        """Return the one region that is equal to this region followed by `following`.

        Raises:
            InvalidSlice: The input shape of `following` is not the output shape of this region.

        >>> first = Region.of((10,), (range(9, -1, -2),))
        >>> first.then(Region.of((5,), (range(1, 4),))).ranges
        (range(7, 2, -2),)
        """
        if following.input_shape != self.output_shape:
            raise InvalidSlice(
                f"the following region must have input shape {self.output_shape}, got {following.input_shape}"
            )
        if self.is_empty:
            return Region(self.input_shape, self.ranges, following.output_shape)
        # Output axes longer than 1 match, in order, the ranges longer than 1: new and dropped axes all have size 1.
        following_ranges = zip(following.ranges, self.output_shape, strict=True)
        inner = iter([selected for selected, size in following_ranges if size != 1])
        ranges = tuple(selected if len(selected) == 1 else compose(selected, next(inner)) for selected in self.ranges)
        return Region(self.input_shape, ranges, following.output_shape)

    def coalesce(self) -> Region:
        """Return the region with the fewest axes that selects the same elements of a packed buffer in the same order.

        A region that selects nothing is returned unchanged.

        >>> Region.of((4, 3, 5), (range(1, 3), range(3), range(5))).coalesce()
        Region(input_shape=(60,), ranges=(range(15, 45),), output_shape=(30,))
        """
        if self.is_empty:
            return self
        sizes, selected, _ = coalesce(self.input_shape, self.ranges)
        return Region.of(sizes, selected)


def find_tiled_axis(regions: Sequence[Region]) -> tuple[int, list[int]] | None:
    """Return the axis that the regions divide, and their order along it, as a list of positions in `regions`.

    Return None unless all conditions hold: there are two or more regions of one input shape; their ranges on the axis
    are non-empty, have step 1, and together cover each element once; every region selects all other axes whole; no
    region adds or drops an axis.

    >>> left, right = Region.of((2, 6), (range(2), range(4))), Region.of((2, 6), (range(2), range(4, 6)))
    >>> find_tiled_axis([right, left])
    (1, [1, 0])
    """
    if len(regions) < 2 or any(part.is_empty or part.input_shape != regions[0].input_shape for part in regions):
        return None
    shape = regions[0].input_shape
    sliced = [axis for axis, size in enumerate(shape) if any(region.ranges[axis] != range(size) for region in regions)]
    if len(sliced) != 1:
        return None
    (axis,) = sliced
    order = sorted(range(len(regions)), key=lambda i: regions[i].ranges[axis].start)
    next_start = 0
    for i in order:
        part = regions[i]
        selected = part.ranges[axis]
        if selected.step != 1 or selected.start != next_start or part.output_shape != tuple(map(len, part.ranges)):
            return None
        next_start = selected.stop
    return (axis, order) if next_start == shape[axis] else None

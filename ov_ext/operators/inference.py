"""Bounds of sizes after slicing, from bounds of sizes and indices. Standard library only.

Bounds are inclusive. A size of `INT64_MAX` means "unbounded", as -1 does in OpenVINO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from sliceport.errors import InvalidSlice
from sliceport.slicing.axis import INT64_MAX, INT64_MIN, resolve_axis


class Bounds(NamedTuple):
    """The least and the greatest possible value."""

    low: int
    high: int

    @property
    def is_exact(self) -> bool:
        """Whether only one value is possible."""
        return self.low == self.high


ANY_INDEX = Bounds(INT64_MIN, INT64_MAX)
"""The bounds of an unknown index."""
_MIN_UNBOUNDED = 2**31
"""A computed size below this one never counts as unbounded. A step above 2^31 would lead to a lower limit."""


def bounds_at(index: Sequence[Bounds] | None, entry: int) -> Bounds:
    """Return the bounds of one element of an index input. They are `ANY_INDEX` if `index` is None (not known)."""
    return ANY_INDEX if index is None else index[entry]


def slice_axis(
    axis: int, sizes: Sequence[Bounds], start: Bounds | None, stop: Bounds | None, step: Bounds, label: str
) -> tuple[Bounds, int | None]:
    """Return the bounds of the size of an axis after slicing, and `axis` if every size stays as it is, else None.

    `sizes` are the bounds of all sizes of the data. For `start` and `stop`, see `sliced_size`.

    Raises:
        InvalidSlice: The step is 0. The message calls it `label`.
    """
    if step == (0, 0):
        raise InvalidSlice(f"{label} is 0, but it must not be")
    sliced = sliced_size(sizes[axis], start, stop, step.low if step.is_exact else None)
    return sliced.bounds, axis if sliced.keeps_size else None


class SlicedSize(NamedTuple):
    """The size of a sliced axis.

    Attributes:
        bounds: The least and the greatest possible size.
        keeps_size: Whether every size of the axis stays as it is.
    """

    bounds: Bounds
    keeps_size: bool


@lru_cache(4096)
def sliced_size(axis: Bounds, start: Bounds | None, stop: Bounds | None, step: int | None) -> SlicedSize:
    """Return the bounds of the size of an axis after slicing.

    If the step is known, the bounds are as tight as possible. Only a very large upper bound may be widened to infinity.

    The number of selected elements is computed only where it may have an extreme. As the axis grows, the number may
    turn from rising to falling, or back, only at a size at which an index meets an end of the axis. As an index grows,
    the number may turn only between the indices -1 and 0. All other extremes are at the bounds.

    Args:
        axis: Bounds of the axis's size.
        start: Bounds of the first index, or None to start at the first element in the direction of the step.
        stop: Bounds of the exclusive end, or None to select up to the last element in that direction.
        step: The step, or None if it is not known exactly.

    Raises:
        InvalidSlice: The step is 0.

    >>> sliced_size(Bounds(0, 9), Bounds(-7, -7), Bounds(1, 1), 1).bounds
    Bounds(low=0, high=1)
    >>> sliced_size(Bounds(2, INT64_MAX), None, None, -1)
    SlicedSize(bounds=Bounds(low=2, high=9223372036854775807), keeps_size=True)
    """
    if step is None:
        return SlicedSize(Bounds(0, axis.high), axis.high == 0)
    low, high, keeps_size = INT64_MAX, 0, True
    for first in _extreme_indices(start):
        for end in _extreme_indices(stop):
            for size in _extreme_sizes(axis, first, end):
                count = len(resolve_axis(first, end, step, size))
                low, high = min(low, count), max(high, count)
                keeps_size = keeps_size and count == size
    # A slice that takes every |step|-th element of an unbounded axis is unbounded, too. `high` is then close to
    # INT64_MAX / |step|, so half of this quotient serves as the limit. A large index may also bound `high` by a number
    # above the limit. Dropping this bound makes the result less exact but not wrong.
    if axis.high == INT64_MAX and high >= max(INT64_MAX // abs(step) // 2, _MIN_UNBOUNDED):
        high = INT64_MAX
    return SlicedSize(Bounds(low, high), keeps_size)


def check_shrunk_index(position: int, axis: int, size: Bounds, index: Bounds) -> None:
    """Check that an index may be in range, given the bounds of the index and of the size of the axis.

    The greatest size decides, because it allows the most indices. `position` is the index's position in `begin`.

    Raises:
        InvalidSlice: Every possible index is out of range for every possible size.

    >>> check_shrunk_index(1, 1, Bounds(2, 4), Bounds(3, 9))
    >>> check_shrunk_index(1, 1, Bounds(2, 4), Bounds(5, 5))
    Traceback (most recent call last):
    sliceport.errors.InvalidSlice: entry 1 shrinks axis 1 to index 5, but the axis has at most 4 elements
    """
    if size.high > 0 and index.low < size.high and index.high >= -size.high:
        return
    indices = f"index {index.low}" if index.is_exact else f"an index from {index.low} to {index.high}"
    actual = f"the axis has {'' if size.is_exact else 'at most '}{size.high} elements"
    if size.high == INT64_MAX:  # the size is unbounded
        actual = "no axis is that long"
    raise InvalidSlice(f"entry {position} shrinks axis {axis} to {indices}, but {actual}")


def _extreme_indices(bounds: Bounds | None) -> tuple[int | None, ...]:
    """Return the indices that may give the least or greatest size: the bounds, and -1 and 0 if they lie between."""
    if bounds is None:  # the index is left out
        return (None,)
    if bounds.low < 0 <= bounds.high:
        return tuple({bounds.low, -1, 0, bounds.high})
    return tuple({bounds.low, bounds.high})


def _extreme_sizes(axis: Bounds, first: int | None, end: int | None) -> Iterator[int]:
    """Yield the axis sizes at which the result may be extreme.

    They are the bounds, the sizes at which an index meets an end of the axis, and the sizes next to these.
    """
    yield axis.low
    yield axis.high
    for index in (first, end):
        if index is not None:
            for size in range(abs(index) - 1, abs(index) + 2):
                if axis.low < size < axis.high:
                    yield size

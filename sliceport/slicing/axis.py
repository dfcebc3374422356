"""One axis: the selected indices as a `range`, in output order.

`range` is the canonical form of a sliced axis: `len` is the output size, `==` compares the elements selected, and
slicing a range composes two slices. `resolve_axis`, `compose`, `as_range` and `merge` return ranges in canonical
spelling (`canonicalize`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sliceport.errors import InvalidSlice

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


class Window(NamedTuple):
    """The tight window around the selected indices of one axis, in DirectML's words (DML_SLICE1_OPERATOR_DESC).

    `offset` is the lowest selected index. `size` is the extent from the lowest to the highest selected index,
    `(n - 1) * |stride| + 1` for `n` indices. `stride` is the signed step, or 1 for a single index. If `stride` is
    negative, the first selected index is at the window's end. All three are in elements.
    """

    offset: int
    size: int
    stride: int


def canonicalize(selected: range) -> range:
    """Return an equal range in canonical spelling.

    An empty range becomes `range(0)`. A range of one index gets step 1. `stop` becomes the integer next to the last
    index, in the direction of the step.

    >>> canonicalize(range(4, 100, 200))
    range(4, 5)
    >>> canonicalize(range(0, 6, 4))
    range(0, 5, 4)
    """
    count = len(selected)
    if count > 1:
        step = selected.step
        return range(selected[0], selected[-1] + (1 if step > 0 else -1), step)
    return range(selected[0], selected[0] + 1) if count else range(0)


def resolve_axis(start: int | None, stop: int | None, step: int, size: int) -> range:
    """Return the indices that a slice selects from one axis, in output order. Clamp bounds as ONNX and OpenVINO do.

    Guarantees:
      * every index lies in `[0, size)`;
      * equal selections give equal results, so `==` means "the same elements";
      * `len(result)` is the output size, possibly 0;
      * no integer has a special meaning: INT64_MIN is an index before the start of every axis, and INT64_MAX an index
        after its end.

    The rule is Python's, with one exception: a backward slice that starts below `-size` starts at index 0, because ONNX
    clamps the start of a backward slice to `[0, size - 1]`. Python selects nothing there.

    Args:
        start: First index, counted from the end if negative; None for the first element in the direction of `step`.
        stop: Exclusive end, counted from the end if negative; None to stop after the last element in that direction.
        step: Any non-zero integer.
        size: Number of elements on the axis, at most INT64_MAX.

    Raises:
        InvalidSlice: `step` is 0, or `size` is more than INT64_MAX.

    >>> resolve_axis(-1, INT64_MIN, -2, size=5)
    range(4, -1, -2)
    >>> resolve_axis(-100, -200, -1, size=5)
    range(0, 1)
    """
    if step == 0:
        raise InvalidSlice("step must not be 0")
    # `len` raises OverflowError for a longer range.
    if size > INT64_MAX:
        raise InvalidSlice(f"an axis must have at most 2^63 - 1 elements, got {size}")
    if step < 0 and start is not None and start < -size:  # ONNX clamps the start; Python would select nothing
        start = -size
    return canonicalize(range(size)[start:stop:step])


def compose(outer: range, inner: range) -> range:
    """Return the indices of `outer` at the positions in `inner`. All positions must be below `len(outer)`.

    >>> compose(range(10, 0, -2), range(1, 4, 2))
    range(8, 3, -4)
    """
    return canonicalize(outer[as_slice(inner)])


def shift(selected: range, by: int) -> range:
    """Move indices along the axis by `by` elements; every result must be at least 0.

    >>> shift(range(4, 2, -1), -3)
    range(1, -1, -1)
    """
    return range(selected.start + by, selected.stop + by, selected.step)


def as_range(indices: Sequence[int], size: int) -> range | None:
    """Return a list of indices as a range, or None if no range equals it.

    The result is None if an index is out of bounds or repeats, or if the step is not constant. Negative indices count
    from the end. An empty list is returned as an empty range.

    >>> as_range([-1, 2, 0], size=5)
    range(4, -1, -2)
    >>> as_range([1, 1], size=5) is None
    True
    """
    if any(not -size <= index < size for index in indices):
        return None
    positions = [index % size for index in indices]
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    if step == 0:  # an index repeats
        return None
    selected = range(positions[0], positions[0] + len(positions) * step, step) if positions else range(0)
    return canonicalize(selected) if list(selected) == positions else None


def window(selected: range) -> Window:
    """Return the smallest window that contains all indices of `selected`, which must not be empty.

    >>> window(range(5, -1, -2))
    Window(offset=1, size=5, stride=-2)
    """
    first, last = selected[0], selected[-1]
    return Window(min(first, last), abs(last - first) + 1, selected.step if len(selected) > 1 else 1)


def as_slice(selected: range) -> slice:
    """Return the Python slice that selects exactly these indices, for `array[...]`.

    >>> as_slice(range(4, -1, -2))
    slice(4, None, -2)
    """
    selected = canonicalize(selected)  # an empty range may have bounds that a slice counts from the end
    # A backward range down to index 0 stops at -1, but a slice that stops at -1 stops before the last index.
    return slice(selected.start, selected.stop if selected.stop >= 0 else None, selected.step)


def merge(outer: range, inner: range, inner_size: int) -> range | None:
    """Return one range for two neighbouring axes that become one axis. Return None if no range fits.

    The pair of indices `(o, i)` becomes the index `o * inner_size + i`. A range fits if these indices have a constant
    step in output order. They do if either axis selects a single element. Otherwise, the step from the last index in
    a row of `outer` to the first index in the next row must be the step of `inner`. Both ranges must be non-empty.

    >>> merge(range(1, 3), range(4), inner_size=4)
    range(4, 12)
    >>> merge(range(2, -1, -1), range(3, -1, -1), inner_size=4)
    range(11, -1, -1)
    >>> merge(range(2), range(3), inner_size=4) is None
    True
    """
    first = outer[0] * inner_size + inner[0]
    if len(outer) == 1:
        step = inner.step
    elif len(inner) == 1:
        step = outer.step * inner_size
    elif outer.step * inner_size == len(inner) * inner.step:
        step = inner.step
    else:
        return None
    return canonicalize(range(first, first + len(outer) * len(inner) * step, step))


def coalesce(
    sizes: Sequence[int], selected: Sequence[range], contiguous: Sequence[bool] | None = None
) -> tuple[list[int], list[range], list[int]]:
    """Merge neighbouring axes into the fewest axes that select the same elements in the same order.

    Args:
        sizes: Size of each axis, outermost first.
        selected: Non-empty indices selected on each axis.
        contiguous: For each axis but the last, whether its stride equals `size * stride` of the next axis, in the input
            and in every output. None means that all tensors are packed. With `contiguous`, no size may be 1: an axis
            of size 1 is dropped, and the flag of the axis before it would still refer to the dropped axis.

    Returns:
        The merged sizes, the merged indices, and for each merged axis the innermost of its original axes. The merged
        axis has the memory stride of that axis. Axes of size 1 are dropped; a tensor of one element has no axis left.
    """
    # From the innermost axis outwards, because `merge` needs the total size of the axes merged so far.
    out_sizes: list[int] = []
    out_selected: list[range] = []
    innermost: list[int] = []
    for axis in range(len(sizes) - 1, -1, -1):
        size, indices = sizes[axis], selected[axis]
        if size == 1:
            continue
        if out_sizes and (contiguous is None or contiguous[axis]):
            merged = merge(indices, out_selected[-1], out_sizes[-1])
            if merged is not None:
                out_selected[-1] = merged
                out_sizes[-1] *= size
                continue
        out_sizes.append(size)
        out_selected.append(indices)
        innermost.append(axis)
    return out_sizes[::-1], out_selected[::-1], innermost[::-1]

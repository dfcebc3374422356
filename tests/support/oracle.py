"""Oracle of slicing operators, element by element, that shares no code with the package.

The rules are transcribed from the specifications' words with plain integers and `while` loops; no Python slice and no
`range` decides which element is kept. NumPy only holds the elements.

Sources: the ONNX operator pages of Slice-13 and Split-18; OpenVINO's page of StridedSlice-1 as its shape inference
reads it (negative values adjusted once, silent clamping, an end mask that reaches element 0 backward, shrink ignoring
everything but `begin`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


class OracleError(Exception):
    """The specification does not allow this."""


def kept_indices(start: int | None, end: int | None, step: int, dim: int) -> list[int]:
    """Return the indices of one axis, in output order; None means that a bound is not given (masked)."""
    if step == 0:
        raise OracleError("step 0")
    if dim == 0:
        return []
    forward = step > 0
    if start is None:
        start = 0 if forward else dim - 1
    else:
        if start < 0:
            start += dim
        low, high = (0, dim) if forward else (0, dim - 1)
        start = max(start, low)
        start = min(start, high)
    if end is None:
        end = dim if forward else -1
    else:
        if end < 0:
            end += dim
        low, high = (0, dim) if forward else (-1, dim - 1)
        end = max(end, low)
        end = min(end, high)
    indices = []
    index = start
    while (index < end) if forward else (index > end):
        indices.append(index)
        index += step
    return indices


def pick(data: Array, indices: Sequence[Sequence[int]]) -> Array:
    """Return the elements on the grid of the indices of each axis, one by one."""
    elements = [data[position] for position in itertools.product(*indices)]
    return np.array(elements, data.dtype).reshape([len(axis) for axis in indices])


def onnx_slice(
    data: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Array:
    """Select by ONNX Slice."""
    rank = data.ndim
    if rank == 0 or len(starts) != len(ends):
        raise OracleError("scalar or lengths")
    if axes is None:
        axes = list(range(len(starts)))
    if steps is None:
        steps = [1] * len(starts)
    if len(axes) != len(starts) or len(steps) != len(starts):
        raise OracleError("lengths")
    indices = [list(range(size)) for size in data.shape]
    named = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if axis < -rank or axis >= rank:
            raise OracleError("axis")
        named.append(axis + rank if axis < 0 else axis)
        if named.count(named[-1]) > 1:
            raise OracleError("axis named twice")
        indices[named[-1]] = kept_indices(start, end, step, data.shape[axis])
    return pick(data, indices)


def onnx_split(data: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
    """Split by ONNX Split with explicit sizes."""
    rank = data.ndim
    if axis < -rank or axis >= rank:
        raise OracleError("axis")
    if axis < 0:
        axis += rank
    total = 0
    for size in sizes:
        if size < 0:
            raise OracleError("negative size")
        total += size
    if total != data.shape[axis]:
        raise OracleError("sum")
    parts, first = [], 0
    for size in sizes:
        indices = [list(range(n)) for n in data.shape]
        indices[axis] = [first + i for i in range(size)]
        parts.append(pick(data, indices))
        first += size
    return parts


def strided_slice(
    data: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    *,
    begin_mask: Sequence[int] = (),
    end_mask: Sequence[int] = (),
    new_axis_mask: Sequence[int] = (),
    shrink_axis_mask: Sequence[int] = (),
    ellipsis_mask: Sequence[int] = (),
) -> Array:
    """Select by OpenVINO StridedSlice-1."""
    count = len(begin)

    def bit(mask: Sequence[int], i: int) -> bool:
        return i < len(mask) and mask[i] == 1

    ellipses = [i for i in range(count) if bit(ellipsis_mask, i)]
    if len(ellipses) > 1:
        raise OracleError("two ellipses")
    consuming = 0
    for i in range(count):
        if not bit(ellipsis_mask, i) and not bit(new_axis_mask, i):
            consuming += 1
    if consuming > data.ndim:
        raise OracleError("too many entries")
    indices: list[list[int]] = []
    shape: list[int] = []
    for i in range(count):
        axis = len(indices)
        if bit(ellipsis_mask, i):
            for _ in range(data.ndim - consuming):
                size = data.shape[len(indices)]
                indices.append(list(range(size)))
                shape.append(size)
        elif bit(new_axis_mask, i):
            shape.append(1)
        elif bit(shrink_axis_mask, i):
            index = begin[i] + data.shape[axis] if begin[i] < 0 else begin[i]
            if index < 0 or index >= data.shape[axis]:
                raise OracleError("shrink out of range")
            indices.append([index])
        else:
            first = None if bit(begin_mask, i) else begin[i]
            last = None if bit(end_mask, i) else end[i]
            step = 1 if strides is None else strides[i]
            indices.append(kept_indices(first, last, step, data.shape[axis]))
            shape.append(len(indices[-1]))
    while len(indices) < data.ndim:
        size = data.shape[len(indices)]
        indices.append(list(range(size)))
        shape.append(size)
    return pick(data, indices).reshape(shape)

"""Every selection of a small axis and tensor, and the elements that a Region selects."""

from __future__ import annotations

import itertools

import numpy as np

from sliceport.slicing import Region, as_slice


def small_ranges(size: int) -> list[range]:
    """Return every selection of an axis of `size` that some start, stop and step make, each once."""
    found = {range(0)}
    steps = (*range(-size, 0), *range(1, size + 1))
    for start, stop, step in itertools.product(range(size), range(-1, size + 1), steps):
        found.add(range(start, stop, step))
    return sorted(found, key=lambda kept: (len(kept), tuple(kept)))


def every_region(shape: tuple[int, ...]) -> list[Region]:
    return [Region.of(shape, kept) for kept in itertools.product(*map(small_ranges, shape))]


def select(data: np.ndarray, region: Region) -> np.ndarray:
    return data[tuple(map(as_slice, region.ranges))].reshape(region.output_shape)


def distinct(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)

"""Copies of the bytes of a region from one buffer to another."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sliceport.slicing import Region

Array = npt.NDArray[Any]

MIN_PARALLEL_BYTES = 2 * 2**20
"""The least output size in bytes for which a second thread saves time, because starting it takes 60 to 100 us."""
_MAX_THREADS = 4
_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else frozenset(range(os.cpu_count() or 1))
_COPIED_AS_BITS = frozenset("?bBhHiIlLqQefd")
"""Codes of the types whose bits NumPy keeps in a copy to the same type."""
_BY_WIDTH = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Plan:
    """A copy of a region, prepared once for its shape and indices.

    Attributes:
        output_shape: The shape of the output.
    """

    __slots__ = ("_index", "_is_empty", "_source_shape", "_target_shape", "output_shape")

    def __init__(self, region: Region) -> None:
        merged = region.coalesce()  # the same elements, selected along fewer axes
        self.output_shape = region.output_shape
        self._is_empty = region.is_empty
        self._index = merged.slices
        # The shapes to which `copy` reshapes source and target; None if that is not necessary.
        self._source_shape = None if merged.input_shape == region.input_shape else merged.input_shape
        self._target_shape = None if merged.output_shape == region.output_shape else merged.output_shape

    def copy(self, source: Array, target: Array) -> None:
        """Copy the selected elements between contiguous arrays. An element must occupy whole bytes."""
        if self._is_empty:
            return
        # NumPy might change bits of types outside `_COPIED_AS_BITS`, and it converts elements if the types differ.
        if source.dtype.char not in _COPIED_AS_BITS or source.dtype != target.dtype:
            source, target = as_unsigned(source), as_unsigned(target)
        selected = (source if self._source_shape is None else source.reshape(self._source_shape))[self._index]
        merged_target = target if self._target_shape is None else target.reshape(self._target_shape)
        if target.nbytes < MIN_PARALLEL_BYTES or len(_CORES) == 1:
            np.copyto(merged_target, selected)
        else:
            _copy_in_parts(selected, merged_target)


def _copy_in_parts(source: Array, target: Array) -> None:
    """Copy in several threads; each thread copies one part of an axis.

    The axis is the outermost one whose size is at least the number of threads. Without such an axis, one thread copies.
    """
    count = min(_MAX_THREADS, len(_CORES))
    axis = next((axis for axis, size in enumerate(target.shape) if size >= count), None)
    if axis is None:
        target[...] = source
        return
    bounds = [target.shape[axis] * i // count for i in range(count + 1)]
    parts = [(slice(None),) * axis + (slice(a, b),) for a, b in pairwise(bounds)]
    pool = _pool_of(os.getpid())  # A forked process cannot use the threads of its parent.
    # This thread copies the first part itself.
    futures = [pool.submit(np.copyto, target[part], source[part]) for part in parts[1:]]
    np.copyto(target[parts[0]], source[parts[0]])
    for future in futures:
        future.result()


@lru_cache(1)
def _pool_of(pid: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a forked process needs threads of its own
    """Return the thread pool of the process `pid`."""
    return ThreadPoolExecutor(min(_MAX_THREADS, len(_CORES)), "ov_ext-copy", initializer=_allow_all_cores)


def _allow_all_cores() -> None:
    """Let this thread run on any core.

    OpenVINO pins each of its threads to one core, and a new thread inherits this core from the thread that starts it.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, _CORES)


def as_unsigned(array: Array) -> Array:
    """View elements of 1, 2, 4 or 8 bytes as unsigned integers, so that NumPy copies bits. Others stay unchanged."""
    unsigned = _BY_WIDTH.get(array.dtype.itemsize)
    return array if unsigned is None or array.dtype == unsigned else array.view(unsigned)


def copy_packed(region: Region, source: Array, bits: int, lowest_first: bool) -> Array:
    """Select a region of a packed tensor whose elements are smaller than a byte, and return its packed bytes.

    Args:
        region: The region to copy.
        source: The bytes of the tensor.
        bits: The bits of an element: 1, 2 or 4.
        lowest_first: Whether the first element of a byte is in its lowest bits.
    """
    order: Literal["little", "big"] = "little" if lowest_first else "big"
    # The last byte may have unused bits.
    used_bits = np.unpackbits(source, bitorder=order)[: prod(region.input_shape) * bits]
    selected = used_bits.reshape(*region.input_shape, bits)[region.slices]
    return np.packbits(selected, bitorder=order)  # fills the last byte with zeros

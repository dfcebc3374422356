"""Tensor descriptors: sizes and strides over a buffer (DML_BUFFER_TENSOR_DESC).

Source: "Using strides to express padding and memory layout", DML_BUFFER_TENSOR_DESC and DMLCalcBufferTensorSize of
DirectML's documentation. Sizes, strides and offsets are in elements, buffer sizes and byte offsets in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from math import prod

from sliceport.errors import InvalidDescriptor, UsageError

UINT32_MAX = 2**32 - 1
MAX_RANK = 8
"""DML_TENSOR_DIMENSION_COUNT_MAX1."""
MINIMUM_ALIGNMENT = 16
"""DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT: every tensor starts at a multiple of this many bytes in its buffer."""
_AXIS_LETTERS = "NCDHW"
_MAX_ENUMERATED = 2**16
"""Number of elements up to which `may_overlap` compares all offsets, which takes some milliseconds."""


class DataType(IntEnum):
    """DML_TENSOR_DATA_TYPE, with the header's values, and the header's names without their prefix."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @property
    def bits(self) -> int:
        """Bits of one element; 0 for UNKNOWN."""
        return _BITS[self]


_BITS = {data_type: int(re.sub(r"\D", "", data_type.name) or 0) for data_type in DataType}


def axis_order(layout: str) -> tuple[int, ...]:
    """Return the axes of a memory layout from outermost to innermost, as positions in the tensor's own order.

    A layout is written with the letters of DirectML's page on strides (`NHWC`, `WH`, `NDHWC`), or as a permutation
    (`0,2,3,1`). The tensor's own order of letters is N, C, D, H, W.

    Raises:
        UsageError: `layout` has neither form.

    >>> axis_order("NHWC")
    (0, 2, 3, 1)
    """
    if layout[:1].isdigit():
        parts = layout.split(",")
        if sorted(parts) == sorted(map(str, range(len(parts)))):
            return tuple(map(int, parts))
    elif layout and len(set(layout)) == len(layout) and set(layout) <= set(_AXIS_LETTERS):
        letters = [letter for letter in _AXIS_LETTERS if letter in layout]
        return tuple(map(letters.index, layout))
    raise UsageError(
        f"layout {layout!r} is not known; write letters of {_AXIS_LETTERS}, each at most once (NHWC), or a permutation "
        "of the axes (0,2,3,1)."
    )


def packed_strides(sizes: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the strides of a packed tensor. `order` lists its axes from outermost to innermost; None is row-major.

    >>> packed_strides((1, 1, 3, 5), axis_order("NHWC"))
    (15, 1, 5, 1)
    """
    strides = [0] * len(sizes)
    step = 1
    for axis in reversed(range(len(sizes)) if order is None else order):
        strides[axis] = step
        step *= sizes[axis]
    return tuple(strides)


def element_offset(coordinates: Sequence[int], strides: Sequence[int]) -> int:
    """Return the offset of an element in the buffer: the dot product of its coordinates and the strides.

    >>> element_offset((1, 0, 1), (6, 3, 1))
    7
    """
    return sum(index * stride for index, stride in zip(coordinates, strides, strict=True))


def buffer_size(data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None = None) -> int:
    """Return the size in bytes of the smallest buffer for a tensor, rounded up to a multiple of 4.

    DMLCalcBufferTensorSize returns the same size, but overflows at 32 bits for a tensor with strides. An empty tensor
    needs 0 bytes.

    >>> buffer_size(DataType.UINT8, (2, 3), (5, 1))
    8
    """
    words = -(-_span(sizes, strides) * data_type.bits // 32)  # rounded up
    return words * 4


def _span(sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Return how many elements of its buffer a tensor spans, from first to last. None stands for packed strides."""
    if strides is None or 0 in sizes:
        return prod(sizes)
    return 1 + element_offset([size - 1 for size in sizes], strides)


@dataclass(frozen=True)
class BufferTensor:
    """DML_BUFFER_TENSOR_DESC: a tensor's type, sizes and strides over a buffer.

    It can hold any numbers; `check` raises if they break a rule.

    Attributes:
        data_type: Element type.
        sizes: Size of each dimension.
        strides: Number of elements from one index to the next in each dimension; None for packed row-major. A stride of
            0 repeats elements. A stride above the packed stride skips padding.
        total_tensor_size_in_bytes: Size of the buffer range that the tensor may touch.
        guaranteed_base_offset_alignment: Promise that the tensor starts at a multiple of this many bytes in its buffer;
            0 promises nothing.
        flags: DML_TENSOR_FLAGS; 1 is OWNED_BY_DML.
    """

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    total_tensor_size_in_bytes: int
    guaranteed_base_offset_alignment: int = 0
    flags: int = 0

    @classmethod
    def of(
        cls, data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None = None, *, alignment: int = 0
    ) -> BufferTensor:
        """Return a tensor with the smallest buffer that it fits in. Strides of a packed tensor are replaced by None.

        Raises:
            InvalidDescriptor: The number of strides is not the number of sizes.

        >>> BufferTensor.of(DataType.FLOAT32, (2, 3), (3, 1)).strides is None
        True
        """
        sizes = tuple(sizes)
        if strides is not None:
            strides = tuple(strides)
            if len(strides) != len(sizes):
                raise InvalidDescriptor(f"{len(sizes)} sizes need {len(sizes)} strides, got {len(strides)}")
            packed = packed_strides(sizes)
            if all(size == 1 or own == usual for size, own, usual in zip(sizes, strides, packed, strict=True)):
                strides = None
        return cls(data_type, sizes, strides, buffer_size(data_type, sizes, strides), alignment)

    @property
    def rank(self) -> int:
        """Number of dimensions (DimensionCount)."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """Number of logical elements."""
        return prod(self.sizes)

    @cached_property
    def effective_strides(self) -> tuple[int, ...]:
        """The strides. If `strides` is None, the strides of the packed tensor are computed from its sizes."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    @property
    def physical_size(self) -> int:
        """Number of buffer elements from the tensor's first element to its last; 0 for an empty tensor."""
        return _span(self.sizes, self.strides)

    @property
    def is_addressable(self) -> bool:
        """Whether the tensor and its buffer each have at most 2^32 - 1 elements, the limit of DirectML.dll."""
        elements = max(self.element_count, self.physical_size)
        return elements <= UINT32_MAX and self.total_tensor_size_in_bytes * 8 <= UINT32_MAX * self.data_type.bits

    @property
    def may_overlap(self) -> bool:
        """Whether two elements may share an address.

        The answer is exact for nested layouts (packed, padded, permuted) and for tensors of up to 65536 elements. Every
        other tensor counts as overlapping, which is right for broadcast layouts.
        """
        if self.strides is None:
            return False
        dims = sorted((stride, size) for stride, size in zip(self.strides, self.sizes, strict=True) if size > 1)
        # Nothing overlaps if each stride is at least the extent of all dimensions with smaller strides (nested layout).
        is_nested, extent = True, 1
        for stride, size in dims:
            is_nested = is_nested and stride >= extent
            extent += (size - 1) * stride
        if is_nested:
            return False
        if self.element_count > _MAX_ENUMERATED:
            return True
        offsets = {0}
        for stride, size in dims:
            offsets = {offset + i * stride for offset in offsets for i in range(size)}
        return len(offsets) < self.element_count

    def padded_to(self, rank: int) -> BufferTensor:
        """Return the same tensor with leading dimensions of 1, so that its rank is at least `rank`.

        >>> BufferTensor.of(DataType.FLOAT32, (3, 5)).padded_to(4).sizes
        (1, 1, 3, 5)
        """
        missing = rank - self.rank
        if missing <= 0:
            return self
        strides = self.strides or None  # a scalar has the strides (), which become None (packed)
        if strides is not None:
            # The packed stride is cut to 32 bits, which is harmless: a dimension of size 1 never uses its stride.
            strides = (min(self.sizes[0] * strides[0], UINT32_MAX),) * missing + strides
        return replace(self, sizes=(1,) * missing + self.sizes, strides=strides)

    def check(self, name: str) -> None:
        """Check the tensor against the rules that DirectML has for every buffer tensor.

        Args:
            name: Name of the tensor in the message.

        Raises:
            InvalidDescriptor: A rule is broken.
        """
        problem = next(self.list_problems(), None)
        if problem is not None:
            raise InvalidDescriptor(f"{name}: {problem}")

    def list_problems(self) -> Iterator[str]:
        """Yield the rules of DirectML that the tensor breaks, as parts of sentences.

        A rule may rely on the earlier ones, so only the first problem counts.

        Two rules follow DirectML.dll, which differs from its documentation. An alignment must be at least 16
        (documented: the size of an element). TotalTensorSizeInBytes need not be a multiple of 4.
        """
        if self.data_type == DataType.UNKNOWN:
            yield "the data type is UNKNOWN"
        if not 1 <= self.rank <= MAX_RANK:
            yield f"a tensor has 1 to {MAX_RANK} dimensions, got {self.rank}"
        if not all(1 <= size <= UINT32_MAX for size in self.sizes):
            yield f"sizes must be between 1 and {UINT32_MAX}, got {list(self.sizes)}"
        if self.strides is not None:
            if len(self.strides) != self.rank:
                yield f"{self.rank} sizes need {self.rank} strides, got {len(self.strides)}"
            if not all(0 <= stride <= UINT32_MAX for stride in self.strides):
                yield f"strides must be between 0 and {UINT32_MAX}, got {list(self.strides)}"
        elements = max(self.element_count, self.physical_size)
        if elements > UINT32_MAX:
            yield f"{elements} elements exceed DirectML's limit of {UINT32_MAX}"
        total, needed = self.total_tensor_size_in_bytes, buffer_size(self.data_type, self.sizes, self.strides)
        if total < needed:
            yield f"TotalTensorSizeInBytes is {total}, but the sizes and strides need {needed} bytes"
        if not self.is_addressable:
            limit = f"{UINT32_MAX} elements of {self.data_type.name}"
            yield f"TotalTensorSizeInBytes is {total}, more than the size of {limit}"
        alignment, minimum = self.guaranteed_base_offset_alignment, MINIMUM_ALIGNMENT
        if alignment and (alignment & (alignment - 1) or alignment < minimum):
            yield f"GuaranteedBaseOffsetAlignment must be 0 or a power of two of at least {minimum}, got {alignment}"

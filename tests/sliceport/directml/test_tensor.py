"""Tensor descriptors: every example of the strides page, the rule of DMLCalcBufferTensorSize, every check."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sliceport.directml.tensor import BufferTensor, DataType, axis_order, buffer_size, element_offset, packed_strides
from sliceport.errors import InvalidDescriptor, UsageError

F32 = DataType.FLOAT32


def memory_of(text: str, sizes: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """Return the memory of a tensor whose elements are letters, row by row; `x` stands for padding."""
    tensor = BufferTensor.of(DataType.UINT8, sizes, strides)
    memory = ["x"] * tensor.physical_size
    for letter, coordinates in zip(text, np.ndindex(*sizes), strict=True):
        memory[element_offset(coordinates, strides)] = letter
    return "".join(memory)


class TestStridesPage:
    @pytest.mark.parametrize(
        ("sizes", "layout", "strides"),
        [
            ((2, 3), "HW", (3, 1)),
            ((2, 3), "WH", (1, 2)),
            ((2, 2, 3), "DHW", (6, 3, 1)),
            ((1, 1, 3, 5), "NCHW", (15, 15, 5, 1)),
            ((2, 3, 4, 5, 6), "NCDHW", (360, 120, 30, 6, 1)),
            ((2, 3, 4, 5, 6), "NDHWC", (360, 1, 90, 18, 3)),
        ],
    )
    def test_strides_of_a_layout_are_those_of_the_page(
        self, sizes: tuple[int, ...], layout: str, strides: tuple[int, ...]
    ) -> None:
        assert packed_strides(sizes, axis_order(layout)) == strides

    @pytest.mark.parametrize(
        ("text", "sizes", "strides", "memory"),
        [
            ("ABCDEF", (2, 3), (3, 1), "ABCDEF"),
            ("ABCDEF", (2, 3), (1, 2), "ADBECF"),
            ("ABCDEFGHIJKL", (2, 2, 3), (6, 3, 1), "ABCDEFGHIJKL"),
            ("ABCDEF", (2, 3), (5, 1), "ABCxxDEF"),
        ],
    )
    def test_elements_lie_where_the_page_has_them(
        self, text: str, sizes: tuple[int, ...], strides: tuple[int, ...], memory: str
    ) -> None:
        assert memory_of(text, sizes, strides) == memory

    def test_channel_stride_0_repeats_every_channel(self) -> None:
        tensor = BufferTensor.of(F32, (2, 3, 4, 5), (20, 0, 5, 1))
        offsets = {element_offset((1, c, 2, 3), tensor.effective_strides) for c in range(3)}
        assert offsets == {33}

    def test_hw_pads_to_4d_with_leading_ones(self) -> None:
        assert BufferTensor.of(F32, (2, 3), (5, 1)).padded_to(4) == BufferTensor(F32, (1, 1, 2, 3), (10, 10, 5, 1), 32)
        assert BufferTensor(F32, (), (), 4).padded_to(2) == BufferTensor(F32, (1, 1), None, 4)

    def test_padding_keeps_strides_within_32_bits(self) -> None:
        tensor = BufferTensor.of(F32, (2,), (2**31,))
        tensor.check("x")
        tensor.padded_to(4).check("x")

    def test_packed_nchw_needs_no_strides(self) -> None:
        assert BufferTensor.of(F32, (1, 1, 3, 5)).total_tensor_size_in_bytes == 60
        assert BufferTensor.of(F32, (1, 1, 3, 5), (15, 15, 5, 1)) == BufferTensor.of(F32, (1, 1, 3, 5))


class TestLayouts:
    def test_every_permutation_of_nchw_is_packed_and_visits_each_address_once(self) -> None:
        sizes = (2, 3, 4, 5)
        for order in itertools.permutations(range(4)):
            strides = packed_strides(sizes, order)
            tensor = BufferTensor.of(F32, sizes, strides)
            assert not tensor.may_overlap
            assert tensor.physical_size == tensor.element_count
            assert len({element_offset(c, strides) for c in np.ndindex(*sizes)}) == 120
            assert axis_order(",".join(map(str, order))) == order

    @pytest.mark.parametrize("layout", ["", "NN", "NXHW", "0,2,1,1", "1,2", "nchw", "0;1"])
    def test_unknown_layouts_are_named(self, layout: str) -> None:
        with pytest.raises(UsageError, match="layout .* is not known; write letters"):
            axis_order(layout)


class TestBufferSize:
    """The measured values of DMLCalcBufferTensorSize, and where it wraps and this does not."""

    @pytest.mark.parametrize(
        ("data_type", "sizes", "strides", "expected"),
        [
            (DataType.FLOAT16, (1, 3, 5), None, 32),
            (DataType.FLOAT16, (1, 3, 5), (15, 5, 1), 32),
            (DataType.UINT8, (1, 3, 5), (0, 0, 1), 8),
            (DataType.UINT8, (1,), None, 4),
        ],
    )
    def test_size_equals_the_measured_one(
        self, data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...] | None, expected: int
    ) -> None:
        assert buffer_size(data_type, sizes, strides) == expected

    def test_empty_is_0_where_the_helper_gives_16_gib(self) -> None:
        assert buffer_size(F32, (2, 0, 3), (0, 3, 1)) == 0

    def test_offsets_past_32_bits_are_counted_in_full_where_the_helper_wraps_to_8(self) -> None:
        assert buffer_size(F32, (3, 2), (2**31, 1)) == 17179869192

    def test_sizes_of_every_type_follow_from_its_bits(self) -> None:
        for data_type in DataType:
            assert buffer_size(data_type, (9,)) == -(-9 * data_type.bits // 32) * 4


class TestClassification:
    def test_small_layouts_overlap_exactly_if_two_addresses_are_equal(self) -> None:
        for sizes in itertools.product(range(1, 4), repeat=3):
            for strides in itertools.product(range(7), repeat=3):
                tensor = BufferTensor.of(F32, sizes, strides)
                addresses = [element_offset(c, strides) for c in np.ndindex(*sizes)]
                assert tensor.physical_size == max(addresses) + 1
                unique = len(set(addresses)) == len(addresses)
                assert tensor.may_overlap != unique

    def test_large_interleaved_layouts_count_as_overlapping(self) -> None:
        assert not BufferTensor.of(F32, (3, 2), (2, 3)).may_overlap
        assert BufferTensor.of(F32, (2**10, 2**10, 3), (2**11, 2, 3)).may_overlap

    @pytest.mark.parametrize("stride", [300, 301])
    def test_large_nested_layouts_do_not_overlap(self, stride: int) -> None:
        assert not BufferTensor.of(F32, (300, 300), (stride, 1)).may_overlap
        assert BufferTensor.of(F32, (300, 300), (299, 1)).may_overlap


class TestChecks:
    @pytest.mark.parametrize(
        ("tensor", "message"),
        [
            (BufferTensor(DataType.UNKNOWN, (1,), None, 4), "the data type is UNKNOWN"),
            (BufferTensor(F32, (), None, 4), "1 to 8 dimensions, got 0"),
            (BufferTensor(F32, (1,) * 9, None, 4), "1 to 8 dimensions, got 9"),
            (BufferTensor(F32, (2, 0), None, 8), r"sizes must be between 1 and 4294967295, got \[2, 0\]"),
            (BufferTensor(F32, (2**32,), None, 2**34), "sizes must be between 1 and 4294967295"),
            (BufferTensor(F32, (2, 3), (1,), 24), "2 sizes need 2 strides, got 1"),
            (BufferTensor(F32, (2, 3), (-1, 1), 24), "strides must be between 0 and 4294967295"),
            (BufferTensor(F32, (2, 3), (2**32, 1), 24), "strides must be between 0 and 4294967295"),
            (BufferTensor(DataType.UINT8, (2**16, 2**16), None, 2**32), "4294967296 elements exceed"),
            (BufferTensor(DataType.UINT8, (3, 2), (2**31, 1), 2**33), "elements exceed DirectML's limit"),
            (
                BufferTensor(DataType.UINT8, (4,), None, 2**32),
                "TotalTensorSizeInBytes is 4294967296, more than the size of 4294967295",
            ),
            (BufferTensor(F32, (2, 3), None, 20), "TotalTensorSizeInBytes is 20, but the sizes and strides need 24"),
            (BufferTensor(F32, (2, 3), (5, 1), 28), "TotalTensorSizeInBytes is 28, but .* need 32"),
            (BufferTensor(F32, (2,), None, 8, 12), "GuaranteedBaseOffsetAlignment must be 0 or a power of two"),
            (BufferTensor(F32, (2,), None, 8, 8), "a power of two of at least 16, got 8"),
        ],
    )
    def test_each_rule_has_its_sentence(self, tensor: BufferTensor, message: str) -> None:
        with pytest.raises(InvalidDescriptor, match=f"^InputTensor: .*{message}"):
            tensor.check("InputTensor")

    @pytest.mark.parametrize("alignment", [0, 16, 32, 256, 2**31])
    def test_good_alignments_pass(self, alignment: int) -> None:
        BufferTensor(F32, (2,), None, 8, alignment).check("t")

    def test_a_larger_buffer_whose_size_is_not_a_multiple_of_4_passes(self) -> None:
        BufferTensor(DataType.UINT8, (3,), None, 6).check("t")

    def test_strides_of_another_length_are_refused_when_computed(self) -> None:
        with pytest.raises(InvalidDescriptor, match="2 sizes need 2 strides, got 3"):
            BufferTensor.of(F32, (2, 3), (3, 1, 1))

"""Our rules and our emulator against the real DirectML.dll."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from descriptors import TYPES, good, spoilt

from sliceport import device
from sliceport.device import CallFailed
from sliceport.directml import emulator
from sliceport.directml.operators import ElementWiseIdentity, Operator, Slice, Slice1, Split, check
from sliceport.directml.tensor import BufferTensor, DataType
from sliceport.errors import InvalidDescriptor

F32 = DataType.FLOAT32
E_INVALIDARG = 0x80070057


def accepted(operator: Operator) -> bool:
    try:
        check(operator)
    except InvalidDescriptor:
        return False
    return True


def is_int_min_window(operator: Operator) -> bool:
    """Whether an operator triggers `STEP_OF_INT_MIN` (INT cannot hold the magnitude of the step)."""
    return isinstance(operator, Slice1) and -(2**31) in operator.input_window_strides


def is_hidden_overlap(operator: Operator) -> bool:
    """Whether an operator triggers `HIDDEN_OVERLAP`: DirectML only checks for equal strides, strides of 0 and size."""

    def hidden(tensor: BufferTensor) -> bool:
        steps = [stride for stride, n in zip(tensor.effective_strides, tensor.sizes, strict=True) if n > 1]
        visible = 0 in steps or len(set(steps)) < len(steps) or tensor.physical_size < tensor.element_count
        return tensor.may_overlap and not visible

    return any(map(hidden, operator.outputs))


@pytest.mark.parametrize("seed", range(8))
def test_our_rules_are_directmls(directml: device.Device, seed: int) -> None:
    """500 descriptors a seed, every second one with another value in some field: accepted by both or by none.

    Two known defects of DirectML are the only difference, and both are ours to refuse.
    """
    pick = random.Random(seed)
    verdicts = {True: 0, False: 0}
    for i in range(500):
        field, operator = ("", good(pick)) if i % 2 else spoilt(pick, good(pick))
        hresult = directml.create_operator(operator)
        assert hresult in (0, E_INVALIDARG)
        if accepted(operator) != (hresult == 0):
            assert hresult == 0, (field, operator)
            assert is_int_min_window(operator) or is_hidden_overlap(operator), (field, operator)
        verdicts[hresult == 0] += 1
    assert min(verdicts.values()) > 100


def test_outputs_that_interleave_without_overlap_are_fine(directml: device.Device) -> None:
    operator = ElementWiseIdentity(BufferTensor.of(F32, (2, 3)), BufferTensor.of(F32, (2, 3), (3, 2)))
    assert directml.create_operator(operator) == 0
    assert accepted(operator)


@pytest.mark.parametrize("rank", range(1, 9))
@pytest.mark.parametrize("data_type", TYPES, ids=lambda t: t.name)
def test_every_type_and_rank_moves_the_same_bytes(directml: device.Device, data_type: DataType, rank: int) -> None:
    """Random bytes, so NaNs of any payload and denormals too; padding between output elements stays as it was."""
    pick = random.Random(f"{data_type.name} {rank}")
    values = np.random.default_rng(rank)
    for kind in (Slice1, Split):
        operator = good(pick, kind, data_type, rank)
        check(operator)
        data = values.integers(0, 256, operator.input_tensor.total_tensor_size_in_bytes).astype(np.uint8)
        expected = emulator.run(operator, data)
        for got, want in zip(directml.run(operator, data), expected, strict=True):
            assert np.array_equal(got, want), operator


@pytest.mark.parametrize("kind", [Slice, ElementWiseIdentity])
@pytest.mark.parametrize("seed", range(6))
def test_the_other_operators(directml: device.Device, kind: type[Operator], seed: int) -> None:
    operator = good(random.Random(seed), kind)
    numbers = np.random.default_rng(seed).integers(0, 256, operator.input_tensor.total_tensor_size_in_bytes)
    data = numbers.astype(np.uint8)
    for got, want in zip(directml.run(operator, data), emulator.run(operator, data), strict=True):
        assert np.array_equal(got, want), operator


@pytest.mark.parametrize("byte_offset", [16, 48, 256])
def test_views_start_at_a_byte_offset(directml: device.Device, byte_offset: int) -> None:
    operator = Slice1(BufferTensor.of(F32, (2, 3), (8, 2)), BufferTensor.of(F32, (2, 2)), 2, (0, 1), (2, 2), (1, 1))
    data = np.arange(100, dtype=np.float32).view(np.uint8)
    (got,) = directml.run(operator, data, byte_offset=byte_offset)
    (want,) = emulator.run(operator, data[byte_offset:])
    assert np.array_equal(got, want)


def test_sizes_of_the_older_slice_count_elements(directml: device.Device) -> None:
    source, two = BufferTensor.of(F32, (6,)), BufferTensor.of(F32, (2,))
    assert directml.create_operator(Slice(source, two, 1, (1,), (2,), (4,))) == 0
    assert directml.create_operator(Slice(source, two, 1, (1,), (5,), (4,))) == E_INVALIDARG
    (got,) = directml.run(Slice(source, two, 1, (1,), (2,), (4,)), np.arange(6, dtype=np.float32).view(np.uint8))
    assert got.view(np.float32).tolist() == [1, 5]


def test_a_bad_operator_is_an_answer(directml: device.Device) -> None:
    bad = Slice1(BufferTensor.of(F32, (4,)), BufferTensor.of(F32, (2,)), 1, (0,), (4,), (0,))
    with pytest.raises(CallFailed, match="CreateOperator failed with 0x80070057"):
        directml.run(bad, np.zeros(16, np.uint8))
    assert directml.create_operator(bad) == E_INVALIDARG


@pytest.mark.parametrize("total", [4, 5])
@pytest.mark.parametrize("byte_offset", [0, 16])
def test_input_buffer_may_end_with_its_tensor(directml: device.Device, byte_offset: int, total: int) -> None:
    tensor = replace(BufferTensor.of(DataType.UINT8, (3,)), total_tensor_size_in_bytes=total)
    (got,) = directml.run(
        ElementWiseIdentity(tensor, tensor), np.arange(1, byte_offset + 4, dtype=np.uint8), byte_offset=byte_offset
    )
    assert got[:3].tolist() == [byte_offset + 1, byte_offset + 2, byte_offset + 3]


def test_a_short_buffer_is_refused_before_it_is_sent(directml: device.Device) -> None:
    operator = ElementWiseIdentity(BufferTensor.of(F32, (4,)), BufferTensor.of(F32, (4,)))
    with pytest.raises(InvalidDescriptor, match="the tensor ends at byte 16, but its buffer has 12"):
        directml.run(operator, np.zeros(12, np.uint8))

"""Descriptors at the limits of their fields: DirectML and our rules give the same answer, and the host lives on."""

from __future__ import annotations

import pytest

from sliceport import device
from sliceport.directml.operators import ElementWiseIdentity, Operator, Slice1, Split, check
from sliceport.directml.tensor import BufferTensor, DataType
from sliceport.errors import InvalidDescriptor

U8, U32 = DataType.UINT8, DataType.UINT32
MOST = 2**32 - 1


def tensor(data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...] | None, total: int) -> BufferTensor:
    return BufferTensor(data_type, sizes, strides, total)


def to_its_like(read: BufferTensor) -> ElementWiseIdentity:
    return ElementWiseIdentity(read, read)


ONE = tensor(U32, (1,), None, 4)
LIMITS = {
    "the largest tensor": to_its_like(tensor(U32, (MOST,), None, 4 * MOST)),
    "one element more": to_its_like(tensor(U32, (65536, 65536), None, 2**34)),
    "the largest total": ElementWiseIdentity(ONE, tensor(U32, (1,), None, 2**34 - 4)),
    "a larger total": ElementWiseIdentity(ONE, tensor(U32, (1,), None, 2**34)),
    "the total of all bits": ElementWiseIdentity(ONE, tensor(U32, (1,), None, 2**64 - 1)),
    "the largest stride of a read": ElementWiseIdentity(
        tensor(U32, (2,), (MOST,), 2**34 - 4), tensor(U32, (2,), None, 8)
    ),
    "the largest stride that fits": ElementWiseIdentity(
        tensor(U32, (2,), (MOST - 1,), 2**34 - 4), tensor(U32, (2,), None, 8)
    ),
    "the largest broadcast": ElementWiseIdentity(tensor(U8, (MOST,), (0,), 4), tensor(U8, (MOST,), None, 2**32)),
    "the largest offset": Slice1(tensor(U32, (MOST,), None, 4 * MOST), ONE, 1, (MOST - 1,), (1,), (1,)),
    "an offset beyond": Slice1(tensor(U32, (MOST,), None, 4 * MOST), ONE, 1, (MOST,), (1,), (1,)),
    "a window that wraps": Slice1(tensor(U32, (MOST,), None, 4 * MOST), ONE, 1, (1,), (MOST,), (1,)),
    "the largest step": Slice1(tensor(U32, (MOST,), None, 4 * MOST), ONE, 1, (0,), (2,), (2**31 - 1,)),
    "the most negative step but one": Slice1(tensor(U32, (MOST,), None, 4 * MOST), ONE, 1, (0,), (2,), (1 - 2**31,)),
    "the largest axis": Split(tensor(U32, (2, 2), None, 16), 1, (tensor(U32, (2, 2), None, 16),), MOST),
    "no dimension": ElementWiseIdentity(tensor(U32, (), None, 4), tensor(U32, (), None, 4)),
    "a size of 0": ElementWiseIdentity(tensor(U32, (0,), None, 4), tensor(U32, (0,), None, 4)),
}


@pytest.mark.parametrize("operator", LIMITS.values(), ids=LIMITS.keys())
def test_our_check_and_directml_agree(directml: device.Device, operator: Operator) -> None:
    process = directml._process
    hresult = directml.create_operator(operator)
    try:
        check(operator)
        ours = 0
    except InvalidDescriptor:
        ours = 0x80070057
    assert hresult == ours
    assert process is None or directml._process is process

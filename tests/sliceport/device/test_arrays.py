"""Arrays become the bytes that onnx-ir writes for them, and come back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from sliceport.device import DeviceError
from sliceport.device.arrays import decode, encode

TYPES = [
    dtype for dtype in ir.DataType if dtype.name not in ("UNDEFINED", "STRING") and not dtype.name.startswith("FLOAT6")
]  # no engine has elements of 6 bits


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 4)])
def test_bytes_are_those_of_onnx_ir(dtype: ir.DataType, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0).integers(0, 256, (*shape, dtype.numpy().itemsize), np.uint8)
    if dtype == ir.DataType.BOOL:
        random &= 1
    if dtype.bitwidth < 8:
        random &= (1 << dtype.bitwidth) - 1
    array = random.view(dtype.numpy()).reshape(shape)
    number, data = encode("x", array)
    assert number == dtype.value
    assert data == ir.tensor(array, dtype=dtype).tobytes()
    if dtype.bitwidth >= 8:
        assert decode(number, list(shape), data).tobytes() == array.tobytes()


def test_what_sticks_out_of_an_element_is_left_out() -> None:
    _, data = encode("x", np.array([-1, 2, -3], np.int8).astype(ml_dtypes.int4))
    assert data == bytes([0x2F, 0x0D])


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.array(["a"]), "strings"),
        (np.array(["a"], object), "strings"),
        (np.array(["2026-01-01"], "datetime64[D]"), "elements of type datetime64"),
    ],
)
def test_others_are_refused(array: npt.NDArray[Any], kind: str) -> None:
    with pytest.raises(DeviceError, match=f"^input 'x' holds {kind}.*which cannot be handed to the DirectML provider"):
        encode("x", array)

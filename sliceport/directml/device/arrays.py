"""Arrays as onnxruntime's provider takes and gives them: the number of an element type in TensorProto, and bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from sliceport.directml.device.errors import DeviceError

_NUMPY = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
}  # fmt: skip
_ML_DTYPES = {
    16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4",
    22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Of the types whose elements are packed."""


@cache
def _dtypes() -> dict[int, np.dtype[Any]]:
    """NumPy's type by number; ml_dtypes before 0.6 lacks some."""
    packaged = {number: getattr(ml_dtypes, name) for number, name in _ML_DTYPES.items() if hasattr(ml_dtypes, name)}
    return {number: np.dtype(kind) for number, kind in (_NUMPY | packaged).items()}


def encode(name: str, array: npt.NDArray[Any]) -> tuple[int, bytes]:
    """The number of an input's element type, and its bytes; elements of less than a byte are packed, lowest bits first.

    Raises:
        DeviceError: The provider takes no such elements.
    """
    number = next((number for number, dtype in _dtypes().items() if dtype == array.dtype), None)
    if number is None:
        kind = "strings" if array.dtype == object or array.dtype.kind in "US" else f"elements of type {array.dtype}"
        raise DeviceError(f"input {name!r} holds {kind}, which cannot be handed to the DirectML provider.")
    bits = _BITS.get(number)
    if bits is None:
        return number, array.tobytes()
    flat = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    columns = _in_columns(flat, 8 // bits)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return number, np.bitwise_or.reduce(columns << shifts, axis=1).astype(np.uint8).tobytes()


def _in_columns(flat: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.uint8]:
    return np.concatenate([flat, np.zeros(-flat.size % width, np.uint8)]).reshape(-1, width)


def decode(number: int, shape: list[int], data: bytes) -> npt.NDArray[Any]:
    """The array of an output."""
    return np.frombuffer(data, _dtypes()[number]).reshape(shape)

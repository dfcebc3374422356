"""Conversion between arrays and what the host program exchanges: bytes, and element types as numbers of TensorProto."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from sliceport.device.errors import DeviceError

_NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn",
    24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""NumPy's names of the element types, from 16 on with ml_dtypes."""
_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Bits per element of the types with less than a byte."""


@cache
def _dtypes() -> dict[int, np.dtype[Any]]:
    """Map the numbers of element types to NumPy's types. Versions of ml_dtypes before 0.6 lack some types."""
    return {number: np.dtype(name) for number, name in _NAMES.items() if number < 16 or hasattr(ml_dtypes, name)}


def dtype_of(number: int) -> np.dtype[Any]:
    """Return NumPy's type for the number of an element type.

    Raises:
        ValueError: NumPy and ml_dtypes lack the type.
    """
    if number not in _dtypes():
        raise ValueError(f"element type {number} has no NumPy type")
    return _dtypes()[number]


def encode(name: str, array: npt.NDArray[Any]) -> tuple[int, bytes]:
    """Return the number of the element type of `array`, and the bytes of its elements. `name` is the input's name.

    Elements of less than a byte are packed, the first into the lowest bits.

    Raises:
        DeviceError: The elements are strings, or TensorProto has no number for their type.
    """
    number = next((number for number, dtype in _dtypes().items() if dtype == array.dtype), None)
    if number is None:
        kind = "strings" if array.dtype == object or array.dtype.kind in "US" else f"elements of type {array.dtype}"
        raise DeviceError(f"input {name!r} holds {kind}, which cannot be handed to the DirectML provider.")
    bits = _BITS.get(number)
    if bits is None:
        return number, array.tobytes()
    flat = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)  # ml_dtypes uses a byte for each element
    padding = np.zeros(-flat.size % (8 // bits), np.uint8)
    elements_by_byte = np.concatenate([flat, padding]).reshape(-1, 8 // bits)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return number, np.bitwise_or.reduce(elements_by_byte << shifts, axis=1).astype(np.uint8).tobytes()


def can_decode(number: int) -> bool:
    """Return whether `decode` accepts the type `number`. It accepts no strings, and no types of less than a byte."""
    return number in _dtypes() and number not in _BITS


def decode(number: int, shape: list[int], data: bytes) -> npt.NDArray[Any]:
    """Convert the bytes of an output into an array. `can_decode` must accept the element type `number`."""
    return np.frombuffer(data, _dtypes()[number]).reshape(shape)

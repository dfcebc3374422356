"""OpenVINO's tensors as NumPy's arrays, and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import openvino as ov

from sliceport.errors import ModelError

Array = npt.NDArray[Any]
_TYPES: dict[str, Any] = {
    "boolean": np.bool_,
    "string": object,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
} | {f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (8, 16, 32, 64)}
"""Types of NumPy and ml_dtypes by the names of OpenVINO's types."""


def numpy_type(element: ov.Type) -> np.dtype[Any] | None:
    """Return the type of NumPy or ml_dtypes for elements, or None if there is no such type, as for packed elements."""
    name = element.get_type_name()
    return np.dtype(_TYPES[name]) if name in _TYPES else None


def to_tensor(array: Array, element: ov.Type) -> ov.Tensor:
    """Copy an array into a tensor of type `element`, which must be as wide as the array's type. Strings stay strings.

    Raises:
        ModelError: `numpy_type` has no type for the elements.
    """
    if array.dtype == object:  # strings
        return ov.Tensor(array.astype(str))
    if numpy_type(element) is None:
        raise ModelError(f"elements of type {element.get_type_name()} cannot be handed to OpenVINO.")
    tensor = ov.Tensor(element, ov.Shape(list(array.shape)))
    if array.size:
        tensor.data.reshape(-1).view(np.uint8)[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return tensor


def to_array(tensor: ov.Tensor) -> Array | None:
    """Return a copy of a tensor as an array. Return None if `numpy_type` has no type for its elements."""
    dtype = numpy_type(tensor.element_type)
    if dtype is None:
        return None
    if dtype.kind == "O":
        return np.array(tensor.str_data, dtype=object).reshape(tuple(tensor.shape))
    data = np.array(tensor.data)  # OpenVINO returns bf16 as float16, and floats of 8 bits as uint8.
    return data if data.dtype == dtype else data.reshape(-1).view(dtype).reshape(tuple(tensor.shape))

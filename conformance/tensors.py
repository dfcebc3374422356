"""Reading of the TensorProtos of cases without the onnx package, and conversion of arrays to JSON values and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Array = Any
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip
"""NumPy's name for each value of TensorProto.DataType."""
_DIMS, _TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9
"""The numbers of fields of TensorProto."""


def read_tensors(folder: Path, kind: str) -> dict[str, Array]:
    """Return the arrays of the files `kind`_0.pb, `kind`_1.pb and so on, by their names and in this order."""
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda file: int(file.stem.rpartition("_")[2]))
    return dict(read_tensor(file.read_bytes()) for file in files)


def read_tensor(message: bytes) -> tuple[str, Array]:
    """Return the name and a writable array of a TensorProto that stores its elements in `raw_data`."""
    dims, dtype, name, raw = [], "", "", b""
    for field, value in _read_fields(message):
        if field == _DIMS:
            dims.append(value)
        elif field == _TYPE:
            dtype = DTYPES[value]
        elif field == _NAME:
            name = value.decode()
        elif field == _RAW_DATA:
            raw = value
    return name, np.frombuffer(bytearray(raw), find_dtype(dtype)).reshape(dims)


def find_dtype(name: str) -> Any:
    """Return a NumPy type by its name; bfloat16 needs the package ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def to_json(array: Array) -> dict[str, Any]:
    """Return an array as JSON values: its type, its shape and its bytes in hexadecimal digits."""
    array = np.asarray(array)
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": np.ascontiguousarray(array).tobytes().hex()}


def from_json(values: dict[str, Any]) -> Array:
    """Return the array that `to_json` described."""
    raw = np.frombuffer(bytes.fromhex(values["data"]), find_dtype(values["dtype"]))
    return raw.reshape(values["shape"])


def _read_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message, whose values are integers or bytes."""
    position = 0

    def read_varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while position < len(message):
        key = read_varint()
        value: int | bytes = read_varint()
        if key & 7 == 2:  # the varint is the length of the bytes that follow
            end = position + int(value)
            value, position = message[position:end], end
        yield key >> 3, value

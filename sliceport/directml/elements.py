"""Which DirectML data type carries an element type: its own, one of equal width, or one that holds several elements.

Slicing copies elements without looking at them, so only their bits count. Source: TensorProto.DataType of onnx.proto,
DML_TENSOR_DATA_TYPE of DirectML.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sliceport.directml.tensor import DataType

_NATIVE = {
    "FLOAT": DataType.FLOAT32,
    "FLOAT16": DataType.FLOAT16,
    "DOUBLE": DataType.FLOAT64,
    "INT8": DataType.INT8,
    "INT16": DataType.INT16,
    "INT32": DataType.INT32,
    "INT64": DataType.INT64,
    "UINT8": DataType.UINT8,
    "UINT16": DataType.UINT16,
    "UINT32": DataType.UINT32,
    "UINT64": DataType.UINT64,
}
ELEMENT_BITS = {name: data_type.bits for name, data_type in _NATIVE.items()} | {
    "BOOL": 8,
    "BFLOAT16": 16,
    "FLOAT8E4M3FN": 8,
    "FLOAT8E4M3FNUZ": 8,
    "FLOAT8E5M2": 8,
    "FLOAT8E5M2FNUZ": 8,
    "FLOAT8E8M0": 8,
    "COMPLEX64": 64,
    "COMPLEX128": 128,
    "INT4": 4,
    "UINT4": 4,
    "FLOAT4E2M1": 4,
    "INT2": 2,
    "UINT2": 2,
}
"""Bits of one element by the ONNX name of its type. Types of less than a byte are packed without gaps, as in ONNX."""

_UINTS = {8: DataType.UINT8, 16: DataType.UINT16, 32: DataType.UINT32, 64: DataType.UINT64}


@dataclass(frozen=True, slots=True)
class Carrier:
    """A data type that elements are copied as.

    Attributes:
        data_type: The DirectML type.
        spread: Carrier elements for one element (64-bit types as pairs of UINT32: 2).
        group: Elements in one carrier element (4-bit types in a UINT8: 2).
    """

    data_type: DataType
    spread: int = 1
    group: int = 1


def find_carriers(element: str, data_types: frozenset[DataType]) -> Iterator[Carrier]:
    """The data types of an operator as which elements of a type can be copied, best first.

    >>> next(find_carriers("BFLOAT16", frozenset({DataType.UINT16})))
    Carrier(data_type=<DataType.UINT16: 4>, spread=1, group=1)
    """
    bits = ELEMENT_BITS[element]
    if _NATIVE.get(element) in data_types:
        yield Carrier(_NATIVE[element])
    for width in sorted(_UINTS, key=lambda width: (width > bits, -width if width <= bits else width)):
        if _UINTS[width] in data_types:
            yield Carrier(_UINTS[width], spread=max(1, bits // width), group=max(1, width // bits))

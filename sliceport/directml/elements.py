"""Carriers of element types: DirectML data types of the same, a smaller or a larger width that copy the same bits.

Slicing copies elements without computing with them, so only their bits matter. Sources: TensorProto.DataType of
onnx.proto, DML_TENSOR_DATA_TYPE of DirectML.h.
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
        spread: Number of carrier elements per element (2 for a 64-bit type as pairs of UINT32).
        group: Number of elements per carrier element (2 for a 4-bit type in UINT8).
    """

    data_type: DataType
    spread: int = 1
    group: int = 1


def find_carriers(element: str, data_types: frozenset[DataType]) -> Iterator[Carrier]:
    """Yield the carriers for elements of a type, best first, out of the data types that an operator takes.

    >>> next(find_carriers("BFLOAT16", frozenset({DataType.UINT16})))
    Carrier(data_type=<DataType.UINT16: 4>, spread=1, group=1)
    """
    bits = ELEMENT_BITS[element]
    if _NATIVE.get(element) in data_types:
        yield Carrier(_NATIVE[element])
    # Then equal width, narrower types from wide to narrow, wider types from narrow to wide.
    for width in sorted(_UINTS, key=lambda width: (width > bits, -width if width <= bits else width)):
        if _UINTS[width] in data_types:
            yield Carrier(_UINTS[width], spread=max(1, bits // width), group=max(1, width // bits))

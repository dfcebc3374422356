"""Carriers: DirectML data types that hold the bits of an ONNX element type, so that an operator copies its elements.

Slicing does not compute with elements, so a carrier may have another width. Sources: TensorProto.DataType of
onnx.proto, DML_TENSOR_DATA_TYPE of DirectML.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sliceport.directml.tensor import DataType

_SAME_NAME = ("FLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_NATIVE = {"FLOAT": DataType.FLOAT32, "DOUBLE": DataType.FLOAT64} | {name: DataType[name] for name in _SAME_NAME}
_FLOAT8 = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0")
ELEMENT_BITS = (
    {name: data_type.bits for name, data_type in _NATIVE.items()}
    | {"BFLOAT16": 16, "COMPLEX64": 64, "COMPLEX128": 128}
    | dict.fromkeys(("BOOL", *_FLOAT8), 8)
    | dict.fromkeys(("INT4", "UINT4", "FLOAT4E2M1"), 4)
    | dict.fromkeys(("INT2", "UINT2"), 2)
)
"""Bits of one element by the ONNX name of its type. Types of less than a byte are packed without gaps, as in ONNX."""

_UINTS = {8: DataType.UINT8, 16: DataType.UINT16, 32: DataType.UINT32, 64: DataType.UINT64}


@dataclass(frozen=True, slots=True)
class Carrier:
    """A data type that elements are copied as.

    Attributes:
        data_type: The DirectML type.
        spread: Number of carrier elements per element (2 for 64 bits as UINT32); 1 unless the carrier is narrower.
        group: Number of elements per carrier element (2 for 4 bits as UINT8); 1 unless the carrier is wider.
    """

    data_type: DataType
    spread: int = 1
    group: int = 1


def find_carriers(element: str, data_types: frozenset[DataType]) -> Iterator[Carrier]:
    """Yield the ways to copy elements of an ONNX type as one of `data_types`, best first.

    >>> next(find_carriers("BFLOAT16", frozenset({DataType.UINT16})))
    Carrier(data_type=<DataType.UINT16: 4>, spread=1, group=1)
    """
    bits = ELEMENT_BITS[element]
    if _NATIVE.get(element) in data_types:
        yield Carrier(_NATIVE[element])
    # Equal width comes first, then narrower types from wide to narrow, then wider types from narrow to wide. Wider
    # types come last, because they fit only a selection that begins and ends at boundaries of carrier elements.
    for width in sorted(_UINTS, key=lambda width: (width > bits, -width if width <= bits else width)):
        if _UINTS[width] in data_types:
            yield Carrier(_UINTS[width], spread=max(1, bits // width), group=max(1, width // bits))

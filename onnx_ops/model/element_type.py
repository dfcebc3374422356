"""The element types of ONNX, as `onnx.TensorProto.DataType` numbers and names them, whatever version is installed."""

from __future__ import annotations

from enum import IntEnum


class ElementType(IntEnum):
    """An element type by its number."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    FLOAT6E3M2 = 28


_BITS = {
    16: (ElementType.UINT16, ElementType.INT16, ElementType.FLOAT16, ElementType.BFLOAT16),
    32: (ElementType.FLOAT, ElementType.INT32, ElementType.UINT32),
    64: (ElementType.INT64, ElementType.DOUBLE, ElementType.UINT64, ElementType.COMPLEX64),
    128: (ElementType.COMPLEX128,),
    6: (ElementType.FLOAT6E2M3, ElementType.FLOAT6E3M2),
    4: (ElementType.UINT4, ElementType.INT4, ElementType.FLOAT4E2M1),
    2: (ElementType.UINT2, ElementType.INT2),
}
_BITS_BY_TYPE = {element: bits for bits, elements in _BITS.items() for element in elements}
BITS: dict[int, int] = {element: _BITS_BY_TYPE.get(element, 8) for element in ElementType}
"""The bits of an element by the number of its type. STRING and UNDEFINED, which have no size, count as 8 bits."""

"""The operators as C structs, ready for IDMLDevice::CreateOperator.

Layouts follow DirectML.h on 64-bit targets: UINT, INT and enums have 4 bytes, pointers and UINT64 have 8. The structs
of the operators are built from their tables in `schema`.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from sliceport.directml.operators import Field, Operator, struct_fields
from sliceport.directml.tensor import BufferTensor
from sliceport.errors import InvalidDescriptor

_UINTS = ctypes.POINTER(ctypes.c_uint32)
_INTS = ctypes.POINTER(ctypes.c_int32)


class DML_BUFFER_TENSOR_DESC(ctypes.Structure):  # noqa: N801 - the header's name
    """A tensor's sizes and strides over a buffer."""

    _fields_ = (
        ("DataType", ctypes.c_int32),
        ("Flags", ctypes.c_int32),
        ("DimensionCount", ctypes.c_uint32),
        ("Sizes", _UINTS),
        ("Strides", _UINTS),
        ("TotalTensorSizeInBytes", ctypes.c_uint64),
        ("GuaranteedBaseOffsetAlignment", ctypes.c_uint32),
    )


class DML_TENSOR_DESC(ctypes.Structure):  # noqa: N801
    """A kind of tensor, here always DML_TENSOR_TYPE_BUFFER, and a pointer to its struct."""

    _fields_ = (("Type", ctypes.c_int32), ("Desc", ctypes.c_void_p))


class DML_OPERATOR_DESC(ctypes.Structure):  # noqa: N801
    """A DML_OPERATOR_TYPE, and a pointer to the operator's own struct."""

    _fields_ = (("Type", ctypes.c_int32), ("Desc", ctypes.c_void_p))


_BUFFER = 1  # DML_TENSOR_TYPE_BUFFER
_TENSOR = ctypes.POINTER(DML_TENSOR_DESC)
_C_TYPES: dict[str, Any] = {
    "tensor": _TENSOR,
    "tensors": _TENSOR,
    "null": ctypes.c_void_p,
    "uint": ctypes.c_uint32,
    "uints": _UINTS,
    "ints": _INTS,
}

STRUCTS: dict[str, type[ctypes.Structure]] = {
    operator.schema.struct: type(
        operator.schema.struct,
        (ctypes.Structure,),
        {
            "_fields_": tuple((field.name, _C_TYPES[field.kind]) for field in struct_fields(operator)),
            "__doc__": operator.schema.struct,
        },
    )
    for operator in get_args(Operator)
} | {cls.__name__: cls for cls in (DML_BUFFER_TENSOR_DESC, DML_TENSOR_DESC, DML_OPERATOR_DESC)}

_PADDING = 64
"""Number of zeros after each array, so that DirectML reads no other memory if DimensionCount is too large."""


class _Address(int):
    """An offset in `Image.data` that becomes a pointer."""


class Image:
    """The structs and arrays of an operator as bytes that can be placed at any address; see `relocate`.

    Attributes:
        data: The structs and arrays. Each pointer is stored as the offset of its target in `data`.
        pointers: The offsets of the pointers in `data`. A pointer becomes valid when the address of `data` is added.
        desc: The offset of the DML_OPERATOR_DESC.

    Raises:
        InvalidDescriptor: A number does not fit its field.
    """

    def __init__(self, operator: Operator) -> None:
        self.data = bytearray()
        self.pointers: list[int] = []
        fields = struct_fields(operator)
        values = [self._add_field(field, getattr(operator, field.attribute)) for field in fields]
        struct = self._add_struct(STRUCTS[operator.schema.struct], values)
        self.desc = self._add_struct(DML_OPERATOR_DESC, [operator.schema.value, struct])

    def _add_field(self, field: Field, value: Any) -> int | None:
        """Return the value to store in a field. For a pointer, add its target and return the offset of the target."""
        if field.kind in ("uint", "null"):
            return value  # type: ignore[no-any-return]
        if field.kind in ("uints", "ints"):
            return self._add_array("I" if field.kind == "uints" else "i", value)
        buffers = [self._add_tensor(tensor) for tensor in (value if field.kind == "tensors" else (value,))]
        # Each DML_TENSOR_DESC has 16 bytes, so `_add` adds no padding, and the structs form an array.
        descs = [self._add_struct(DML_TENSOR_DESC, [_BUFFER, buffer]) for buffer in buffers]
        return descs[0] if descs else None  # null for a SPLIT without outputs

    def _add_tensor(self, tensor: BufferTensor) -> _Address:
        """Add a DML_BUFFER_TENSOR_DESC and its arrays, and return its offset."""
        return self._add_struct(
            DML_BUFFER_TENSOR_DESC,
            [
                tensor.data_type,
                tensor.flags,
                len(tensor.sizes),
                self._add_array("I", tensor.sizes),
                None if tensor.strides is None else self._add_array("I", tensor.strides),
                tensor.total_tensor_size_in_bytes,
                tensor.guaranteed_base_offset_alignment,
            ],
        )

    def _add_array(self, code: str, values: Sequence[int]) -> _Address:
        """Add an array and `_PADDING` zeros, and return its offset. `code` is a type code of the module `array`."""
        try:
            return self._add(array(code, [*values, *(0,) * _PADDING]).tobytes())
        except OverflowError as error:
            raise InvalidDescriptor(f"{list(values)} do not fit their field in DirectML.h ({error}).") from None

    def _add_struct(self, kind: type[ctypes.Structure], values: Sequence[int | None]) -> _Address:
        """Add a struct with the members `values`, store the positions of its pointers, and return its offset."""
        # ctypes does not accept numbers for pointers, so pointers are null at first and are overwritten below.
        struct = kind(*(None if isinstance(value, _Address) else value for value in values))
        start = self._add(bytes(struct))
        for (name, _), value in zip(kind._fields_, values, strict=True):  # type: ignore[misc]
            if isinstance(value, _Address):
                position = start + getattr(kind, name).offset
                self.pointers.append(position)
                self.data[position : position + 8] = value.to_bytes(8, "little")
            elif value is not None and getattr(struct, name) != value:  # ctypes drops the bits that do not fit
                raise InvalidDescriptor(f"{name}={value} does not fit its field in DirectML.h.")
        return start

    def to_json(self) -> dict[str, Any]:
        """Return the description of this image for a request's header. The payload begins with the image itself."""
        return {"size": len(self.data), "pointers": self.pointers, "desc": self.desc}

    def _add(self, data: bytes) -> _Address:
        """Append bytes, padded to a multiple of 8 for the alignment of pointers, and return their offset."""
        start = _Address(len(self.data))
        self.data += data + bytes(-len(data) % 8)
        return start


def relocate(data: bytearray, image: Mapping[str, Any]) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Turn the offsets in the data of an `Image` into addresses, in place.

    Return the memory of `data`, which must live as long as the addresses are used, and the address of the
    DML_OPERATOR_DESC. `image` is the result of `Image.to_json`.
    """
    memory = (ctypes.c_char * len(data)).from_buffer(data)
    base = ctypes.addressof(memory)
    for position in image["pointers"]:
        ctypes.c_uint64.from_address(base + position).value += base
    return memory, base + image["desc"]


class NativeOperator:
    """An operator in C memory. Its pointers stay valid as long as this object lives.

    Attributes:
        address: The address of `desc`.
        desc: The DML_OPERATOR_DESC to pass by reference to CreateOperator.
        struct: The operator's own struct, to which `desc.Desc` points.
    """

    def __init__(self, operator: Operator) -> None:
        image = Image(operator)
        self._memory, self.address = relocate(image.data, image.to_json())
        self.desc = DML_OPERATOR_DESC.from_address(self.address)
        self.struct = STRUCTS[operator.schema.struct].from_address(self.desc.Desc)


def to_native(operator: Operator) -> NativeOperator:
    """Copy an operator into C structs.

    Raises:
        InvalidDescriptor: A number does not fit its field.

    >>> from sliceport.directml.operators import ElementWiseIdentity
    >>> from sliceport.directml.tensor import BufferTensor, DataType
    >>> tensor = BufferTensor.of(DataType.FLOAT32, (2, 3))
    >>> native = to_native(ElementWiseIdentity(tensor, tensor))
    >>> native.desc.Type, native.struct.ScaleBias
    (1, None)
    """
    return NativeOperator(operator)

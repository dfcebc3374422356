"""The operators as C structs, ready for IDMLDevice::CreateOperator.

Layouts follow DirectML.h on 64-bit targets: UINT, INT and enums have 4 bytes, pointers and UINT64 have 8. The
structures of the operators are made from their tables (`schema`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sliceport.directml.operators import Operator
from sliceport.directml.schema import SCHEMAS, Kind
from sliceport.directml.tensor import BufferTensor

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
    """A tensor of some kind; here always DML_TENSOR_TYPE_BUFFER."""

    _fields_ = (("Type", ctypes.c_int32), ("Desc", ctypes.c_void_p))


class DML_OPERATOR_DESC(ctypes.Structure):  # noqa: N801
    """An operator of some type."""

    _fields_ = (("Type", ctypes.c_int32), ("Desc", ctypes.c_void_p))


_BUFFER = 1
_TENSOR = ctypes.POINTER(DML_TENSOR_DESC)
_C_TYPES: dict[Kind, Any] = {
    "input": _TENSOR,
    "output": _TENSOR,
    "outputs": _TENSOR,
    "null": ctypes.c_void_p,
    "uint": ctypes.c_uint32,
    "uints": _UINTS,
    "ints": _INTS,
}

STRUCTS: dict[str, type[ctypes.Structure]] = {
    schema.struct: type(
        schema.struct,
        (ctypes.Structure,),
        {"_fields_": tuple((f.name, _C_TYPES[f.kind]) for f in schema.fields), "__doc__": schema.struct},
    )
    for schema in SCHEMAS.values()
} | {cls.__name__: cls for cls in (DML_BUFFER_TENSOR_DESC, DML_TENSOR_DESC, DML_OPERATOR_DESC)}


@dataclass
class NativeOperator:
    """An operator in C memory; pointers stay valid as long as this object lives.

    Attributes:
        desc: The DML_OPERATOR_DESC to pass by reference to CreateOperator.
        struct: The operator's own struct, to which `desc.Desc` points.
    """

    desc: DML_OPERATOR_DESC = field(init=False)
    struct: ctypes.Structure = field(init=False)
    _owned: list[Any] = field(default_factory=list, repr=False)

    @property
    def address(self) -> int:
        """Address of `desc`."""
        return ctypes.addressof(self.desc)

    def _keep_alive(self, value: Any) -> Any:
        """Keep a reference to `value`, because ctypes keeps none for a pointer that is stored as an address."""
        self._owned.append(value)
        return value

    def _to_array(self, kind: Any, values: Sequence[int]) -> Any:
        return self._keep_alive((kind * len(values))(*values))

    def _to_tensor_descs(self, tensors: Sequence[BufferTensor]) -> Any:
        array = self._keep_alive((DML_TENSOR_DESC * len(tensors))())
        for item, tensor in zip(array, tensors, strict=True):
            buffer = self._keep_alive(
                DML_BUFFER_TENSOR_DESC(
                    tensor.data_type,
                    tensor.flags,
                    len(tensor.sizes),
                    self._to_array(ctypes.c_uint32, tensor.sizes),
                    None if tensor.strides is None else self._to_array(ctypes.c_uint32, tensor.strides),
                    tensor.total_tensor_size_in_bytes,
                    tensor.guaranteed_base_offset_alignment,
                )
            )
            item.Type, item.Desc = _BUFFER, ctypes.addressof(buffer)
        return ctypes.cast(array, _TENSOR)


def to_native(operator: Operator) -> NativeOperator:
    """Copy an operator into C structs.

    >>> from sliceport.directml.operators import ElementWiseIdentity
    >>> from sliceport.directml.tensor import BufferTensor, DataType
    >>> tensor = BufferTensor.of(DataType.FLOAT32, (2, 3))
    >>> native = to_native(ElementWiseIdentity(tensor, tensor))
    >>> native.desc.Type, native.struct.ScaleBias
    (1, None)
    """
    native = NativeOperator()
    struct = STRUCTS[operator.schema.struct]()
    for f in operator.schema.fields:
        value = getattr(operator, f.attribute)
        if f.kind in ("input", "output"):
            value = native._to_tensor_descs([value])
        elif f.kind == "outputs":
            value = native._to_tensor_descs(value)
        elif f.kind in ("uints", "ints"):
            value = native._to_array(ctypes.c_uint32 if f.kind == "uints" else ctypes.c_int32, value)
        setattr(struct, f.name, value)
    native.struct = struct
    native.desc = DML_OPERATOR_DESC(operator.schema.value, ctypes.addressof(struct))
    return native

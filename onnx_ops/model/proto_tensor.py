"""The constants of a ModelProto, in it or in another file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import onnx
from onnx.numpy_helper import to_array

from onnx_ops.model.element_type import BITS, ElementType
from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.views import Array

if TYPE_CHECKING:
    import onnx_ir as ir

T = TypeVar("T")
_FIELDS = {"float_data": "<f4", "int32_data": "<i4", "int64_data": "<i8", "double_data": "<f8", "uint64_data": "<u8"}
"""Where a tensor that has no raw data lists its elements."""


class Tensor:
    """A constant: a TensorProto, whose data are read when they are asked for, or what was computed."""

    __slots__ = ("_array", "_base_dir", "raw")

    def __init__(self, raw: onnx.TensorProto, base_dir: str = "", array: Array | None = None) -> None:
        self.raw = raw
        self._base_dir = base_dir
        self._array = array

    @property
    def dtype(self) -> ElementType:
        """Its element type."""
        return ElementType(self.raw.data_type)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return tuple(self.raw.dims)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.raw.dims)

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        if self.raw.data_type == ElementType.STRING:
            return sum(map(len, self.raw.string_data))
        return -(-self.size * BITS[self.raw.data_type] // 8)

    @property
    def is_external(self) -> bool:
        """Whether its data are in another file."""
        return self._array is None and self.raw.data_location == onnx.TensorProto.EXTERNAL

    def numpy(self) -> Array:
        """Its elements.

        Raises:
            Exception: They cannot be read; onnx and onnx-ir have several classes of errors for it.
        """
        if self._array is not None:
            return self._array
        return self._read_file(lambda tensor: np.array(tensor.numpy())) if self.is_external else to_array(self.raw)

    def tobytes(self) -> bytes:
        """Its elements as bytes, the least first; of types of 32 and 64 bits.

        Raises:
            Exception: See `numpy`.
        """
        self.try_to_load()
        if self.is_external:
            return self._read_file(lambda tensor: tensor.tobytes())
        if self._array is not None or self.raw.HasField("raw_data"):
            return self.raw.raw_data if self._array is None else self._array.tobytes()
        listed = [(getattr(self.raw, field), dtype) for field, dtype in _FIELDS.items()]
        return next((np.array(elements, dtype).tobytes() for elements, dtype in listed if elements), b"")

    def load(self) -> None:
        """Take the elements from the other file in; it is not left open.

        Raises:
            Exception: See `numpy`.
        """
        from onnx_ops.model.prepare import load_external

        data = self._read_file(lambda tensor: load_external(tensor).tobytes())
        raw = self.raw
        self.raw = onnx.TensorProto(name=raw.name, data_type=raw.data_type, dims=raw.dims, raw_data=data)

    def try_to_load(self) -> None:
        """Take the elements from another file in, if they are few and can be read; what needs them says why not."""
        if self.is_external and self.nbytes <= LARGE_BYTES:
            with suppress(Exception):
                self.load()

    def _read_file(self, read: Callable[[ir.ExternalTensor], T]) -> T:
        import onnx_ir as ir

        tensor = ir.serde.deserialize_tensor(self.raw, self._base_dir)
        assert isinstance(tensor, ir.ExternalTensor)
        try:
            return read(tensor)
        finally:
            tensor.release()

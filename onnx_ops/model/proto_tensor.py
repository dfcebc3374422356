"""The constants of a ModelProto, stored in the model or in another file."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx.numpy_helper import to_array

from onnx_ops.model.element_type import BITS, ElementType
from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.views import Array

if TYPE_CHECKING:
    import onnx_ir as ir

_FIELDS = {"float_data": "<f4", "int32_data": "<i4", "int64_data": "<i8", "double_data": "<f8", "uint64_data": "<u8"}
"""The fields that list the elements of a tensor without raw data, and their NumPy types.

`uint64_data` also lists the elements of uint32 tensors.
"""


class Tensor:
    """A constant; see `TensorView`.

    Args:
        raw: The constant; its elements are read on demand.
        base_dir: The folder of its external data file.
        array: The elements, if they were computed and are not in `raw`.
    """

    __slots__ = ("_array", "_base_dir", "raw")

    def __init__(self, raw: onnx.TensorProto, base_dir: str = "", array: Array | None = None) -> None:
        self.raw = raw
        self._base_dir = base_dir
        self._array = array

    @property
    def dtype(self) -> ElementType:
        return ElementType(self.raw.data_type)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.dims)

    @property
    def size(self) -> int:
        return prod(self.raw.dims)

    @property
    def nbytes(self) -> int:
        if self.raw.data_type == ElementType.STRING:
            return sum(map(len, self.raw.string_data))
        return -(-self.size * BITS[self.raw.data_type] // 8)  # rounded up

    @property
    def is_external(self) -> bool:
        """Whether the elements are in another file."""
        return self._array is None and self.raw.data_location == onnx.TensorProto.EXTERNAL

    def numpy(self) -> Array:
        if self._array is not None:
            return self._array
        return self._read_file().numpy() if self.is_external else to_array(self.raw)

    def tobytes(self) -> bytes:
        """Return the elements as little-endian bytes.

        External elements are first loaded into memory. Without raw data, elements must have 32 or 64 bits (unchecked).
        """
        if self._array is not None:
            return self._array.tobytes()
        if self.is_external:
            self.load()
        if self.raw.HasField("raw_data"):
            data: bytes = self.raw.raw_data
            return data
        # Without raw data, one of several fields has the elements. All fields are empty for a tensor without elements.
        is_uint32 = self.raw.data_type == onnx.TensorProto.UINT32
        for field, dtype in _FIELDS.items():
            if elements := getattr(self.raw, field):
                return np.array(elements, "<u4" if is_uint32 else dtype).tobytes()
        return b""

    def load(self) -> None:
        """Read external elements into memory, and close their file. `raw` loses its doc string and metadata.

        Raises:
            ModelError: The file cannot be read.
        """
        data, raw = self._read_file().tobytes(), self.raw
        self.raw = onnx.TensorProto(name=raw.name, data_type=raw.data_type, dims=raw.dims, raw_data=data)

    def try_to_load(self) -> None:
        """Load external elements of up to `LARGE_BYTES`, if they can be read."""
        if self.is_external and self.nbytes <= LARGE_BYTES:
            with suppress(Exception):  # the error is reported for the node that reads the tensor
                self.load()

    def _read_file(self) -> ir.Tensor[Any]:
        """Return a copy of the external elements in memory. The data file is closed."""
        import onnx_ir as ir

        from onnx_ops.model.prepare import load_external

        tensor = ir.serde.deserialize_tensor(self.raw, self._base_dir)
        assert isinstance(tensor, ir.ExternalTensor)
        return load_external(tensor)

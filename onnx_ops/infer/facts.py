"""What is known of a value: its type, its sizes with open ones among them, its elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_ops.infer import shape_arithmetic
from onnx_ops.model.views import Array, Dims

MAX_BYTES = 2**20
"""What is computed on the way to smaller constants may have so many bytes."""
MAX_RANK = 1024
_MAX_SPAN = 2**32
"""NumPy has no arrays whose sizes but 0 have a large product, though they hold nothing."""
INTEGERS: dict[int, Any] = {
    onnx.TensorProto.INT32: np.iinfo(np.int32),
    onnx.TensorProto.INT64: np.iinfo(np.int64),
}
"""The limits of the integer types that shapes are computed in."""


@dataclass(slots=True, eq=False)
class Fact:
    """What is known of a value.

    Attributes:
        element: The number of its element type in TensorProto; 0 where it is not known or the value is no tensor.
        dims: Its sizes, numbers, symbols or None; None where the rank is not known.
        other: The type of a value that is no tensor, serialised.
        data: Its elements, if they are the same for all inputs.
        integers: Its elements as objects, None where one is not known; of small tensors of integers.
    """

    element: int = 0
    dims: Dims | None = None
    other: bytes = b""
    data: Array | None = None
    integers: Array | None = None

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The dims, if all of them are known."""
        if self.dims is None:
            return None
        known = tuple([dim for dim in self.dims if isinstance(dim, int)])
        return known if len(known) == len(self.dims) else None

    def listed(self) -> Array | None:
        """The elements as objects, None where one is not known; None where the tensor is not small, or no integers."""
        if self.integers is not None:
            return self.integers
        sizes = self.sizes
        if self.element not in (*INTEGERS, onnx.TensorProto.BOOL) or sizes is None:
            return None
        if prod(sizes) > shape_arithmetic.MAX_ELEMENTS or prod(filter(None, sizes)) > _MAX_SPAN:
            return None
        if self.data is None:
            return shape_arithmetic.unknown(sizes)
        return self.data.astype(np.int64).astype(object)

    def learn(self, integers: Array) -> None:
        """Take down elements; what does not fit the element type is not known."""
        limits = INTEGERS.get(self.element)
        if limits is not None:
            out = [value is not None and not limits.min <= value <= limits.max for value in integers.flat]
            if any(out):
                integers = integers.copy()
                integers[np.array(out).reshape(integers.shape)] = None
        elif self.element != onnx.TensorProto.BOOL:
            return
        if any(value is None for value in integers.flat):
            self.integers = integers
        else:
            self.data = integers.astype(helper.tensor_dtype_to_np_dtype(self.element))


class Facts(NamedTuple):
    """What was found out about a value, as it is sent back.

    Attributes:
        element: See `Fact`.
        dims: See `Fact`.
        other: See `Fact`.
        data: The elements, if they are the same for all inputs and small.
    """

    element: int
    dims: Dims | None
    other: bytes
    data: Array | None


NOTHING = Fact()
NO_FACTS = Facts(0, None, b"", None)


def read_type(serialized: bytes) -> Fact:
    """What a serialised TypeProto says."""
    proto = onnx.TypeProto.FromString(serialized)
    if not proto.HasField("tensor_type"):
        return Fact(other=serialized if proto.WhichOneof("value") else b"")
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return Fact(tensor.elem_type)
    return Fact(tensor.elem_type, tuple([_dim(dim) for dim in tensor.shape.dim]))


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def read_tensor(tensor: onnx.TensorProto) -> Array | None:
    """A tensor's elements; None where they are not in it, too many, strings or not sound."""
    count = prod(tensor.dims)
    if tensor.data_location == onnx.TensorProto.EXTERNAL or not 0 <= count <= MAX_BYTES:
        return None
    if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        return None
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except Exception:
        return None
    return array if array.nbytes <= MAX_BYTES else None


def fits(fact: Fact, array: Any) -> bool:
    """Whether an array is what was inferred."""
    if not isinstance(array, np.ndarray) or array.dtype == object or array.nbytes > MAX_BYTES:
        return False
    try:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
    except (KeyError, ValueError):
        return False
    sizes = fact.sizes
    return element == fact.element and (sizes is None or sizes == array.shape)

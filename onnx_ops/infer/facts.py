"""Facts inferred for one value: its type, its sizes, some of them open, and its elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_ops.infer import shape_arithmetic
from onnx_ops.model.views import Array, Dims, read_dim, static_sizes

MAX_BYTES = 2**20
"""Limit of the size in bytes of a constant that is computed or read."""
MAX_RANK = 1024
"""Limit of ranks, of elements in a list of axes or sizes, and of outputs of a node that onnx infers."""
# NumPy refuses an empty array if the product of its sizes other than 0 exceeds the address space.
_MAX_SPAN = 2**32
INTEGER_LIMITS: dict[int, Any] = {
    onnx.TensorProto.INT32: np.iinfo(np.int32),
    onnx.TensorProto.INT64: np.iinfo(np.int64),
}
"""Limits of the integer types that shapes are computed in."""


@dataclass(slots=True, eq=False)
class Facts:
    """Facts inferred for one value.

    Attributes:
        element: Number of the element type in TensorProto; 0 if it is unknown or the value is not a tensor.
        dims: Sizes, each a number, a symbol or None; None if the rank is unknown.
        non_tensor_type: Serialised type of a value that is not a tensor.
        data: Elements, if all of them are the same for all inputs.
        integers: Elements as objects, None for each unknown one; only of small tensors of integers or bools.
        is_misdeclared: Whether the model declares a size as a number that its inputs leave open.
    """

    element: int = 0
    dims: Dims | None = None
    non_tensor_type: bytes = b""
    data: Array | None = None
    integers: Array | None = None
    is_misdeclared: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was inferred."""
        return not self.element and self.dims is None and not self.non_tensor_type

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The dims, if all of them are numbers."""
        return static_sizes(self.dims)

    def list_integers(self) -> Array | None:
        """Return the elements as objects, None for each unknown one; None unless the shape is known and small.

        The result is also None for types other than INT32, INT64 and BOOL.
        """
        if self.integers is not None:
            return self.integers
        sizes = self.sizes
        if self.element not in (*INTEGER_LIMITS, onnx.TensorProto.BOOL) or sizes is None:
            return None
        if prod(sizes) > shape_arithmetic.MAX_ELEMENTS or prod(filter(None, sizes)) > _MAX_SPAN:
            return None
        if self.data is None:
            return shape_arithmetic.make_open(sizes)
        return self.data.astype(np.int64).astype(object)

    def set_integers(self, integers: Array) -> None:
        """Store elements of a tensor of INT32, INT64 or BOOL. Integers that do not fit its type become unknown."""
        limits = INTEGER_LIMITS.get(self.element)
        if limits is not None:
            is_outside = [value is not None and not limits.min <= value <= limits.max for value in integers.flat]
            if any(is_outside):
                integers = integers.copy()
                integers[np.array(is_outside).reshape(integers.shape)] = None
        elif self.element != onnx.TensorProto.BOOL:
            return
        if any(value is None for value in integers.flat):
            self.integers = integers
        else:
            self.data = integers.astype(helper.tensor_dtype_to_np_dtype(self.element))


NO_FACTS = Facts()


def read_type(serialized: bytes) -> Facts:
    """Read the facts in a serialised TypeProto."""
    proto = onnx.TypeProto.FromString(serialized)
    if not proto.HasField("tensor_type"):
        return Facts(non_tensor_type=serialized if proto.WhichOneof("value") else b"")
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return Facts(tensor.elem_type)
    return Facts(tensor.elem_type, tuple([read_dim(dim) for dim in tensor.shape.dim]))


def read_tensor(tensor: onnx.TensorProto) -> Array | None:
    """Read the elements of a tensor; None if they are strings, not valid, too many or in another file."""
    # NumPy stores an element in at least one byte, so a tensor of more than MAX_BYTES elements is too large.
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


def matches_facts(facts: Facts, array: Any) -> bool:
    """Return whether an array has the inferred type and sizes and is small enough to store."""
    if not isinstance(array, np.ndarray) or array.dtype == object or array.nbytes > MAX_BYTES:
        return False
    try:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
    except (KeyError, ValueError):
        return False
    sizes = facts.sizes
    return element == facts.element and (sizes is None or sizes == array.shape)

"""Facts that are inferred for one value: its type, its sizes and its elements. Some sizes or elements may be open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_ops.infer import shape_arithmetic
from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.views import Array, Dims, read_dim, static_sizes

MAX_BYTES = 2**20
"""The limit in bytes for a constant that is computed or read."""
MAX_RANK = 1024
"""The limit for ranks, and for the elements of a list of axes or sizes."""
_MAX_INPUT_ELEMENTS = 64  # onnx's inference reads the elements of inputs such as shapes and axes, which are short
_MAX_SPAN = 2**32
"""The limit for the product of all sizes other than 0. NumPy refuses even empty arrays with a much larger product."""
INTEGER_LIMITS: dict[int, Any] = {
    onnx.TensorProto.INT32: np.iinfo(np.int32),
    onnx.TensorProto.INT64: np.iinfo(np.int64),
}
"""The ranges of the integer types in which shapes are computed."""


@dataclass(slots=True, eq=False)
class Facts:
    """Facts inferred for one value.

    Attributes:
        element: The number of the element type in TensorProto; 0 if it is unknown or the value is not a tensor.
        dims: The sizes, each a number, a symbol or None; None if the rank is unknown.
        non_tensor_type: The serialised TypeProto of a value that is not a tensor; otherwise empty.
        data: The elements, the same for all inputs of the model; None if some are unknown or there are too many.
        integers: The elements as Python integers, None for each unknown one; set only for small tensors of INT32, INT64
            or BOOL with some unknown elements.
        alternatives: For an output of an If with an unknown condition: the dims in each branch. For a carried value
            that a Loop may resize, if the Loop may also not run: the dims before the Loop. Otherwise empty.
        is_misdeclared: Whether the model declares a number for a size that its inputs leave open.
        is_resized: Whether the value is carried into the body of a Loop, and the first iteration changes a size of it.
    """

    element: int = 0
    dims: Dims | None = None
    non_tensor_type: bytes = b""
    data: Array | None = None
    integers: Array | None = None
    alternatives: tuple[Dims | None, ...] = ()
    is_misdeclared: bool = False
    is_resized: bool = False

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The dims if all of them are numbers, otherwise None."""
        return static_sizes(self.dims)

    @property
    def count(self) -> int | None:
        """The number of elements, or None if a size is unknown."""
        return None if self.sizes is None else prod(self.sizes)

    def list_integers(self) -> Array | None:
        """Return the elements as Python integers, None for each unknown one.

        The result is None unless the type is INT32, INT64 or BOOL, and the shape is known and has few elements.
        """
        if self.integers is not None:
            return self.integers
        sizes = self.sizes
        if self.element not in (*INTEGER_LIMITS, onnx.TensorProto.BOOL) or sizes is None:
            return None
        if prod(sizes) > shape_arithmetic.MAX_ELEMENTS or prod(filter(None, sizes)) > _MAX_SPAN:
            return None
        if self.data is None:
            return np.full(sizes, None, object)
        return self.data.astype(np.int64).astype(object)

    def set_integers(self, integers: Array) -> None:
        """Store the elements of an INT32, INT64 or BOOL tensor. Elements that are None or out of range are unknown."""
        limits = INTEGER_LIMITS.get(self.element)
        if limits is not None:
            is_outside = [value is not None and not limits.min <= value <= limits.max for value in integers.flat]
            if any(is_outside):
                integers = integers.copy()
                integers[np.array(is_outside).reshape(integers.shape)] = None
        elif self.element != onnx.TensorProto.BOOL:
            return  # elements of other types are not stored
        if any(value is None for value in integers.flat):
            self.integers = integers
        else:
            self.data = integers.astype(helper.tensor_dtype_to_np_dtype(self.element))


NO_FACTS = Facts()


def read_type(serialized: bytes) -> Facts:
    """Read the element type and dims of a tensor from a TypeProto. Keep other types as `non_tensor_type`."""
    proto = onnx.TypeProto.FromString(serialized)
    if not proto.HasField("tensor_type"):
        return Facts(non_tensor_type=serialized if proto.WhichOneof("value") else b"")
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return Facts(tensor.elem_type)
    return Facts(tensor.elem_type, tuple([read_dim(dim) for dim in tensor.shape.dim]))


def without_element_shapes(serialized: bytes) -> bytes:
    """Return a serialised TypeProto. For a sequence, an optional or a map, leave out the shapes of its elements."""
    proto = element = onnx.TypeProto.FromString(serialized)
    while (kind := element.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
        element = element.map_type.value_type if kind == "map_type" else getattr(element, kind).elem_type
    if element is not proto and kind == "tensor_type":
        element.tensor_type.ClearField("shape")
    opened: bytes = proto.SerializeToString()
    return opened


@lru_cache(maxsize=4096)
def serialize_type(element: int, dims: Dims | None) -> bytes:
    """Return the serialised TypeProto of a tensor. The cache saves time because many values have the same type."""
    serialized: bytes = helper.make_tensor_type_proto(element, dims).SerializeToString()
    return serialized


def serialize_inputs(node: onnx.NodeProto, inputs: Sequence[Facts]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Serialise the types of a node's inputs, and the tensors of its short constant inputs. Return both by name."""
    types, tensors = {}, {}
    for name, facts in zip(node.input, inputs, strict=True):
        if name and (facts.element or facts.non_tensor_type):
            types[name] = facts.non_tensor_type or serialize_type(facts.element, facts.dims)
            if facts.data is not None and facts.data.size <= _MAX_INPUT_ELEMENTS:
                tensors[name] = numpy_helper.from_array(facts.data, name).SerializeToString()
    return types, tensors


def drop_large_data(facts: Facts) -> Facts:
    """Return `facts`. If `data` takes more than `LARGE_BYTES`, return only types and dims, to prevent folding."""
    is_large = facts.data is not None and facts.data.nbytes > LARGE_BYTES
    return Facts(facts.element, facts.dims, facts.non_tensor_type) if is_large else facts


def read_tensor(tensor: onnx.TensorProto) -> Array | None:
    """Return the elements of a tensor; None if they are strings, invalid, more than MAX_BYTES, or in another file."""
    # NumPy stores an element in at least one byte, so a tensor of more than MAX_BYTES elements is too large. Dims of an
    # invalid tensor may be negative.
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
    """Return whether a value is a small array of the inferred type and, if all sizes are inferred, of these sizes."""
    if not isinstance(array, np.ndarray) or array.dtype == object or array.nbytes > MAX_BYTES:
        return False
    try:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
    except (KeyError, ValueError):
        return False
    sizes = facts.sizes
    return element == facts.element and (sizes is None or sizes == array.shape)

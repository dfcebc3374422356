"""Removal of the author's names and descriptions from a model and, on request, of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ops.model.nodes import is_standard
from onnx_ops.model.proto_walk import all_nodes

_NAMED = {"NodeProto", "ValueInfoProto", "TensorProto", "GraphProto"}
"""Messages whose field `name` an author chooses."""
_DESCRIPTIONS = frozenset(
    ("denotation", "doc_string", "metadata_props", "producer_name", "producer_version", "quantization_annotation")
)
"""Fields that are removed."""


def anonymise(proto: onnx.ModelProto, seed: int, *, data_folder: str, has_random_weights: bool) -> onnx.ModelProto:
    """Return a copy of a model with other names, without descriptions and, on request, with random weights.

    Operators, attributes, functions, domains and external data files keep their names.

    A weight is a tensor of several floats, or of several integers of at most 8 bits, but not a parameter of a Resize or
    Upsample. Its finite elements are drawn from a normal distribution with the old mean and deviation, clipped to the
    old range.

    The copy itself contains its random weights. All other tensors of external data files stay in these files, which are
    in `data_folder`.
    """
    copy = deepcopy(proto)
    random = np.random.default_rng(seed)
    nodes = list(all_nodes(copy.graph, *copy.functions))
    parameters = {name for node in nodes if node.op_type in ("Resize", "Upsample") for name in node.input[1:] if name}
    for node in (node for node in nodes if is_standard(node, "Constant")):
        for attribute in node.attribute:
            if attribute.name == "value_floats" and has_random_weights and not attribute.ref_attr_name:
                tensor = onnx.numpy_helper.from_array(np.array(attribute.floats, np.float32))
                attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))
            if attribute.HasField("t") and node.output[0] in parameters:
                attribute.t.name = node.output[0]  # so that the name marks the tensor in the loop below
    names: dict[str, str] = {}
    for message in list(_walk(copy)):  # a list, because messages are removed on the way
        if has_random_weights and isinstance(message, onnx.TensorProto) and message.name not in parameters:
            _randomise(message, data_folder, random)
        _rename(message, names)
    return copy


def _walk(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages inside it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if hasattr(value, "__len__") else [value]:  # A repeated field has a length.
                yield from _walk(inner)


def _randomise(tensor: onnx.TensorProto, data_folder: str, random: np.random.Generator) -> None:
    """Replace the elements of a tensor by random ones if it is a weight; see `anonymise`."""
    array = ir.serde.deserialize_tensor(tensor, data_folder).numpy()
    is_narrow_integer = array.dtype.name in ("int8", "uint8", "int4", "uint4", "int2", "uint2")
    # Wider integers may be indices or shapes, which must keep their values.
    if array.size > 1 and (is_narrow_integer or "float" in array.dtype.name):
        wide = array.astype(np.float64)
        is_finite = np.isfinite(wide)  # a mask may contain infinities
        if (finite := wide[is_finite]).size:
            wide[is_finite] = random.normal(finite.mean(), finite.std(), finite.size).clip(finite.min(), finite.max())
        data = ir.tensor((np.rint(wide) if is_narrow_integer else wide).astype(array.dtype)).tobytes()
        dims = list(tensor.dims)
        tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=dims, raw_data=data))


def _rename(message: Any, names: dict[str, str]) -> None:
    """Replace the names in a protobuf message, but not in messages inside it, and remove its `_DESCRIPTIONS`.

    `names` maps old names to new ones. Missing names are added.
    """
    kind = message.DESCRIPTOR.name

    def new_name(old: str) -> str:
        return names.setdefault(old, f"n{len(names)}") if old else ""

    for field, value in message.ListFields():
        if field.name in _DESCRIPTIONS:
            message.ClearField(field.name)
        elif field.name == "dim_param" or (field.name == "name" and kind in _NAMED):
            setattr(message, field.name, new_name(value))
        elif kind in ("NodeProto", "FunctionProto") and field.name in ("input", "output"):
            value[:] = [new_name(old) for old in value]

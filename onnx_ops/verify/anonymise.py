"""Removal of the author's names and descriptions from a model and, on request, of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

_NAMING = frozenset({"NodeProto", "ValueInfoProto", "TensorProto", "GraphProto"})
_DESCRIBING = frozenset(
    {"doc_string", "metadata_props", "producer_name", "producer_version", "quantization_annotation"}
)


def anonymise(proto: onnx.ModelProto, seed: int, *, has_random_weights: bool) -> onnx.ModelProto:
    """Return a copy of a model with other names and without descriptions; the weights may be replaced by random ones.

    A weight is a tensor of several floats, or of several integers of at most 8 bits. The random elements are normally
    distributed with the weight's mean and standard deviation, and clipped to its least and greatest element.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    random = np.random.default_rng(seed)
    names: dict[str, str] = {}
    for message in list(_walk(copy)):
        if has_random_weights and isinstance(message, onnx.TensorProto):
            _randomise(message, random)
        _rename(message, names)
    return copy


def _walk(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages inside it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if hasattr(value, "__len__") else [value]:
                yield from _walk(inner)


def _randomise(tensor: onnx.TensorProto, random: np.random.Generator) -> None:
    array = ir.serde.deserialize_tensor(tensor).numpy()
    is_small = array.dtype.name in ("int8", "uint8", "int4", "uint4", "int2", "uint2")
    if array.size > 1 and (is_small or "float" in array.dtype.name):
        wide = array.astype(np.float64)
        drawn = random.normal(wide.mean(), wide.std(), wide.shape).clip(wide.min(), wide.max())
        data = ir.tensor((np.rint(drawn) if is_small else drawn).astype(array.dtype)).tobytes()
        dims = list(tensor.dims)
        tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=dims, raw_data=data))


def _rename(message: Any, names: dict[str, str]) -> None:
    """Replace the names in a protobuf message, and remove descriptions. `names` maps each old name to the new one."""
    kind = message.DESCRIPTOR.name

    def name(old: str) -> str:
        return names.setdefault(old, f"n{len(names)}") if old else ""

    for field, value in message.ListFields():
        if field.name in _DESCRIBING:
            message.ClearField(field.name)
        elif field.name == "dim_param" or (field.name == "name" and kind in _NAMING):
            setattr(message, field.name, name(value))
        elif kind in ("NodeProto", "FunctionProto") and field.name in ("input", "output"):
            value[:] = [name(old) for old in value]

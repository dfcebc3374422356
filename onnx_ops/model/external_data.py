"""The tensors of a ModelProto that are stored in other files: their files, their sizes, and loading the small ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import onnx
from onnx.external_data_helper import load_external_data_for_tensor

from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.proto_walk import all_tensors
from sliceport.errors import ModelError


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors in other files."""
    return (tensor for tensor in all_tensors(proto) if tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_locations(proto: onnx.ModelProto) -> set[str]:
    """Return the names of their files, as the model writes them."""
    entries = (entry for tensor in external_tensors(proto) for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}


def count_external_bytes(proto: onnx.ModelProto) -> int:
    """Return the bytes by which a model grows when its external tensors are loaded."""
    return sum(map(_size, external_tensors(proto)))


def load_small_tensors(proto: onnx.ModelProto, folder: str) -> None:
    """Load the small external tensors into the model: onnxruntime reads parameters before it opens data files.

    Raises:
        ModelError: The data of a tensor cannot be read.
    """
    for tensor in external_tensors(proto):
        if _size(tensor) <= LARGE_BYTES:
            try:
                load_external_data_for_tensor(tensor, folder)
            except Exception as error:  # onnx checks paths and sizes with errors of its own
                raise ModelError(f"the data of tensor {tensor.name!r} cannot be read ({error}).") from None
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


def _size(tensor: onnx.TensorProto) -> int:
    try:
        width = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, TypeError):
        return 0
    return int(prod(tensor.dims)) * width

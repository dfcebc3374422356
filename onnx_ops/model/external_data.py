"""The tensors of a ModelProto that are stored in other files: their files, their sizes, and loading the small ones."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import all_tensors
from sliceport.errors import ModelError


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors whose data are in other files."""
    return (tensor for tensor in all_tensors(proto) if tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_locations(proto: onnx.ModelProto) -> set[str]:
    """Return the names of the external data files, as the model writes them."""
    entries = (entry for tensor in external_tensors(proto) for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}


def count_external_bytes(proto: onnx.ModelProto) -> int:
    """Return the total size of the external tensors in memory."""
    return sum(Tensor(tensor).nbytes for tensor in external_tensors(proto))


def load_small_tensors(proto: onnx.ModelProto, folder: str) -> None:
    """Load the small external tensors into the model, because onnxruntime reads parameters before it opens data files.

    Raises:
        ModelError: The data of a tensor cannot be read.
    """
    for tensor in external_tensors(proto):
        loaded = Tensor(tensor, folder)
        if loaded.nbytes <= LARGE_BYTES:
            try:
                loaded.load()
            except Exception as error:  # onnx-ir has several classes of errors for it
                raise ModelError(f"the data of tensor {tensor.name!r} cannot be read ({error}).") from None
            tensor.CopyFrom(loaded.raw)

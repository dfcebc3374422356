"""The external tensors of a ModelProto, which are stored in other files: listing and loading them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import onnx

from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import all_tensors
from onnx_ops.model.read import check_size
from sliceport.errors import model_error
from sliceport.wording import shorten


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors whose data are in other files."""
    return (tensor for tensor in all_tensors(proto) if tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_locations(proto: onnx.ModelProto) -> set[str]:
    """Return the names of the external data files, as the model writes them."""
    entries = (entry for tensor in external_tensors(proto) for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}


def describe_data_files(proto: onnx.ModelProto, folder: str) -> str:
    """Return the name, size and modification time of each external data file that exists, as one text to compare."""
    files = ((name, os.path.join(folder, name)) for name in sorted(external_locations(proto)))
    stats = ((name, os.stat(file)) for name, file in files if os.path.isfile(file))
    return "".join(f"{name} {stat.st_size} {stat.st_mtime_ns} " for name, stat in stats)


def load_small_tensors(proto: onnx.ModelProto, folder: str) -> None:
    """Embed the external tensors of up to `LARGE_BYTES` in the model.

    Some may be parameters, such as axes. onnxruntime reads parameters before it opens data files.

    Raises:
        ModelError: The data of a tensor cannot be read.
    """
    for tensor in external_tensors(proto):
        loaded = Tensor(tensor, folder)
        if loaded.nbytes <= LARGE_BYTES:
            loaded.load()
            tensor.CopyFrom(loaded.raw)


def embed_weights(data: bytes, folder: str) -> onnx.ModelProto:
    """Return a serialized model with all its weights embedded. `folder` has the files of external data.

    Raises:
        ModelError: The weights cannot be read, or the model is too large for protobuf.
    """
    proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    # The size is checked first, because the tensors take this much memory when they are read.
    size = len(data) + sum(Tensor(tensor).nbytes for tensor in external_tensors(proto))
    check_size(size, "the model with all its weights")
    try:
        onnx.external_data_helper.load_external_data_for_model(proto, folder)
    except Exception as error:  # onnx raises its own classes of errors for paths and sizes
        raise model_error(f"the weights of the model cannot be read ({shorten(str(error))}).", error) from None
    return proto

"""How large the tensors in external data files are, and loading those that are small."""

from __future__ import annotations

from math import prod
from pathlib import Path

import onnx
from onnx.external_data_helper import load_external_data_for_tensor

from onnx_ops.model.external_data import external_locations, external_tensors
from onnx_ops.model.facts import LARGE_BYTES
from sliceport.errors import ModelError


def external_bytes(proto: onnx.ModelProto, folder: str) -> int:
    """How many bytes the files have that hold them, as far as they are in the folder."""
    return sum(path.stat().st_size for file in external_locations(proto) if (path := Path(folder, file)).is_file())


def loaded_bytes(proto: onnx.ModelProto) -> int:
    """How many bytes they are in a model that holds them itself."""
    return sum(map(_size, external_tensors(proto)))


def load_small_tensors(proto: onnx.ModelProto, folder: str) -> None:
    """Put the small ones into the model: onnxruntime reads parameters before it opens data files.

    Raises:
        ModelError: The data cannot be read.
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

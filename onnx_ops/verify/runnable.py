"""The model in a file, as onnxruntime takes it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_ops.model.external_data import load_small_tensors
from onnx_ops.model.io import from_proto
from onnx_ops.model.proto_walk import model_nodes
from onnx_ops.model.read import read_proto
from onnx_ops.strided_slice_op import embed_function
from sliceport.errors import ModelError


@dataclass(frozen=True)
class Runnable:
    """A model that can be run.

    Attributes:
        proto: For onnxruntime.
        model: As onnx-ir has it.
        data_folder: Where its external data lie.
    """

    proto: onnx.ModelProto
    model: ir.Model
    data_folder: str

    @property
    def outputs(self) -> list[str]:
        """The names of its outputs."""
        return [output.name for output in self.proto.graph.output]


def read_runnable(path: str | os.PathLike[str], data_folder: str | os.PathLike[str] | None = None) -> Runnable:
    """Read a model from a file. It is changed in three things that no runtime computes differently.

    Small tensors in external data files are read; left-out outputs of Split get names, because onnxruntime's CPU
    provider crashes on them; `ov_ext::StridedSlice` brings its function.

    Args:
        path: The file.
        data_folder: Where its external data lie, if not beside it.

    Raises:
        ModelError: The model or its data cannot be read.
        UsageError: See `embed_function`.
    """
    folder = os.path.abspath(data_folder if data_folder is not None else Path(path).absolute().parent)
    try:
        proto = read_proto(path)
        model = from_proto(proto, folder)
        load_small_tensors(proto, folder)
    except ModelError as error:
        raise ModelError(f"'{os.fspath(path)}': {error}") from error.__cause__
    if any(node.op_type == "StridedSlice" for node in model_nodes(proto)):
        embedded = from_proto(proto, folder)
        if embed_function(embedded):
            proto = ir.serde.serialize_model(embedded)
    _name_left_out_parts(proto)
    return Runnable(proto, model, folder)


def _name_left_out_parts(proto: onnx.ModelProto) -> None:
    nodes = list(model_nodes(proto))
    names = {name for node in nodes for name in (*node.input, *node.output)}
    numbers = count()
    for node in nodes:
        if node.op_type == "Split":
            node.output[:] = [
                name or next(made for n in numbers if (made := f"left_out_{n}") not in names) for name in node.output
            ]

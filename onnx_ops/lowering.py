"""The lowering of an ONNX model to its DirectML program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import onnx

from onnx_ops.infer.extract import read_slicing_nodes
from onnx_ops.model.annotate import OnnxSource
from onnx_ops.model.proto_model import ProtoModel
from onnx_ops.model.proto_reader import read_view
from onnx_ops.model.read import CheckedModel, is_onnx_ir, read_any
from onnx_ops.model.sort import sort_graphs
from sliceport.directml.layouts import Options
from sliceport.directml.lower import lower_nodes
from sliceport.directml.program import Program

if TYPE_CHECKING:
    import onnx_ir as ir

    AnyModel = str | os.PathLike[str] | onnx.ModelProto | ir.Model | CheckedModel


def lower(model: AnyModel, *, input_shapes: Mapping[str, Sequence[int]] | None = None, **options: Any) -> Program:
    """Lower every Slice, StridedSlice and Split of a model to DirectML operators.

    Args:
        model: A path, `onnx.ModelProto`, `onnx_ir.Model` or `CheckedModel`. It is not changed, and no weights are read.
        input_shapes: Shapes for inputs whose shape the model leaves open, by name.
        options: Feature level, layouts and views, as for `sliceport.lower`.

    Raises:
        ModelError: The model cannot be read.
        UsageError: `model` is of another type, `input_shapes` do not fit it, or an option is not valid.
    """
    lower_options = Options.of(**options)
    view, source = open_view(model)
    return replace(lower_nodes(read_slicing_nodes(view, input_shapes), lower_options), source=source)


def open_view(model: AnyModel) -> tuple[ProtoModel, OnnxSource]:
    """Return a view of a model, and an `OnnxSource` of the same model. Changes of the view do not change the source.

    Raises:
        ModelError, UsageError: See `lower`.
    """
    if not is_onnx_ir(model):
        checked = read_any(model)
        proto = checked.proto if checked.findings.is_sorted else sort_graphs(checked.proto)
        return read_view(proto, checked.base_dir), OnnxSource(proto)
    from onnx_ops.model.io import clone_sorted, detach_weights, view_of

    source = clone_sorted(cast("ir.Model", model))
    viewed = clone_sorted(source)
    detach_weights(viewed)
    return view_of(viewed), OnnxSource(source)

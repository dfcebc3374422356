"""The lowering of an ONNX model to its DirectML program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import onnx

from onnx_ops.infer.extract import read_slicing_nodes
from onnx_ops.model.annotate import OnnxSource
from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.proto_model import ProtoModel
from onnx_ops.model.read import CheckedModel, is_onnx_ir, read_any
from onnx_ops.model.views import ModelView
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
    with open_view(model) as (view, source):
        return replace(lower_nodes(read_slicing_nodes(view, input_shapes), lower_options), source=source)


@contextmanager
def open_view(model: AnyModel) -> Iterator[tuple[ModelView, OnnxSource]]:
    """Yield a view of a model, and an `OnnxSource` of the same model.

    Changes of the view do not change the source. At the end of the context, the data files that the view opened are
    closed.

    Raises:
        ModelError, UsageError: See `lower`.
    """
    checked = None if is_onnx_ir(model) else read_any(model)
    if checked is not None and not checked.findings.needs_onnx_ir:
        yield ProtoModel(checked.proto, checked.base_dir), OnnxSource(checked.proto)
        return
    from onnx_ops.model.io import clone_sorted, data_closed, to_ir
    from onnx_ops.model.ir_model import IrModel

    if checked is None:
        sorted_model = clone_sorted(cast("ir.Model", model))
        viewed = clone_sorted(sorted_model)  # a second copy, because the view changes its model
        source = OnnxSource(sorted_model)
    else:
        viewed = to_ir(checked)
        # `annotate` finds the nodes of functions by their order, which `to_ir` changes if the model is not sorted.
        is_sorted, proto = checked.findings.is_sorted, checked.proto
        source = OnnxSource(proto) if is_sorted else OnnxSource(to_ir(checked), proto.training_info)
    with data_closed(viewed, LARGE_BYTES):
        yield IrModel.prepared(viewed), source

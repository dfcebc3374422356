"""From an OpenVINO model to its DirectML program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import openvino as ov

from ov_ext.files import read_with_shapes
from ov_ext.one_thread import one_thread
from ov_ext.read import bind_shapes, read_slicing_nodes
from sliceport.arguments import is_path
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.layouts import Layout, Options, freeze_layout
from sliceport.directml.lower import lower_nodes
from sliceport.directml.program import Program
from sliceport.errors import UsageError
from sliceport.slicing.node import SlicingNode


def lower(
    model: str | os.PathLike[str] | ov.Model,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    feature_level: str | FeatureLevel = LATEST,
    input_layout: Layout = None,
    output_layout: Layout = None,
    views: bool = False,
    strict: bool = False,
) -> Program:
    """Lower every Slice, StridedSlice, Split and VariadicSplit of an OpenVINO model to DirectML operators.

    New and dropped axes are a change of sizes over the same buffer, never an operator. Values go by their tensor names,
    else by the node's friendly name, with the output's number where there are several.

    Args:
        model: A file's path, or a model, which is not changed.
        input_shapes: Sizes for inputs by name; the model is reshaped to them.
        feature_level: See `onnx_ops.lower`, as the others.
        input_layout: How the tensors that are cut lie in memory.
        output_layout: The same for what comes out.
        views: Whether forward slices become views of their input's buffer where they can.
        strict: Whether a refused node raises instead of being reported.

    Raises:
        ModelError: The model cannot be read.
        UsageError: It is no model, or an option does not fit the model.
        InvalidSlice, UnsupportedSlice: With `strict`, the first refusal.
    """
    options = Options(
        FeatureLevel.parse(feature_level), freeze_layout(input_layout), freeze_layout(output_layout), views=views
    )
    if not isinstance(model, ov.Model) and not is_path(model):
        raise UsageError(f"a model is a file's path or an openvino.Model, got {type(model).__name__}.")
    program = lower_nodes(_read_nodes(model, input_shapes or {}), options)
    if strict:
        program.raise_refused()
    return program


@one_thread
def _read_nodes(
    model: str | os.PathLike[str] | ov.Model, input_shapes: Mapping[str, Sequence[int]]
) -> list[SlicingNode]:
    if isinstance(model, ov.Model):
        prepared = model.clone()
        bind_shapes(prepared, input_shapes)
    else:
        prepared = read_with_shapes(model, input_shapes)
    return read_slicing_nodes(prepared)

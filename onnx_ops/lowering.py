"""From an ONNX model to its DirectML program: read, prepare, resolve, lower."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import onnx
import onnx_ir as ir

from onnx_ops.annotate import OnnxSource
from onnx_ops.extract import read_slicing_nodes
from onnx_ops.facts import LARGE_BYTES
from onnx_ops.io import data_files_released, from_file_proto, from_proto, read_proto
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.layouts import Layout, Options, freeze_layout
from sliceport.directml.lower import lower_nodes
from sliceport.directml.program import Program

AnyModel = str | os.PathLike[str] | onnx.ModelProto | ir.Model


def lower(
    model: AnyModel,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    feature_level: str | FeatureLevel = LATEST,
    input_layout: Layout = None,
    output_layout: Layout = None,
    views: bool = False,
    strict: bool = False,
) -> Program:
    """Lower every Slice and Split of a model to DirectML operators.

    Args:
        model: A file's path, or a model as onnx or onnx-ir have it; neither is changed. Weights are not read.
        input_shapes: Sizes for inputs whose shape the model leaves open, by name.
        feature_level: The DirectML feature level to lower for.
        input_layout: How the tensors that are cut lie in memory: an axis order for tensors of its rank (`NHWC`,
            `0,2,3,1`), or strides in elements by value name. None: packed row-major.
        output_layout: The same for what comes out.
        views: Whether forward slices that start at a multiple of 16 bytes become views of their input's buffer.
        strict: Whether a refused node raises instead of being reported.

    Raises:
        ModelError: The model cannot be read.
        UsageError: An option does not fit the model.
        InvalidSlice, UnsupportedSlice: With `strict`, the first refusal.
    """
    options = Options(
        FeatureLevel.parse(feature_level), freeze_layout(input_layout), freeze_layout(output_layout), views=views
    )
    with _collector_paused():
        prepared, source = _read(model)
        with data_files_released(prepared, LARGE_BYTES):
            program = replace(lower_nodes(read_slicing_nodes(prepared, input_shapes), options), source=source)
    if strict:
        program.raise_refused()
    return program


def _read(model: AnyModel) -> tuple[ir.Model, OnnxSource]:
    """The model, to be prepared in place, and as it is."""
    if isinstance(model, ir.Model):
        return model.clone(), OnnxSource(model.clone())
    if isinstance(model, onnx.ModelProto):
        owned = onnx.ModelProto()
        owned.CopyFrom(model)
        return from_proto(owned), OnnxSource(owned)
    proto = read_proto(model)
    return from_file_proto(proto, model), OnnxSource(proto)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection: it would walk the graph's objects again and again while they only grow in number."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

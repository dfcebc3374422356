"""The lowering of an OpenVINO model to its DirectML program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import openvino as ov

from ov_ext.files import read_with_shapes
from ov_ext.read import read_slicing_nodes
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.layouts import Layout, Options, read_layout
from sliceport.directml.lower import lower_nodes
from sliceport.directml.program import Program


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

    New and dropped axes change the sizes over the same buffer and need no operator. Values are named by their tensor
    names, or else by the node's friendly name, with the output's number if there are several.

    Args:
        model: A file's path, or a model, which is not changed.
        input_shapes: Sizes for inputs by name, to which the model is reshaped.
        feature_level: The DirectML feature level; see `sliceport.lower`.
        input_layout: The memory layout of sliced tensors.
        output_layout: The memory layout of outputs.
        views: Whether forward slices become views of their input's buffer if possible.
        strict: Whether a refused node raises instead of being reported.

    Raises:
        ModelError: The model cannot be read.
        UsageError: `model` is not a model, or an option does not fit the model.
        InvalidSlice, UnsupportedSlice: With `strict`, the first refusal.
    """
    options = Options(
        FeatureLevel.parse(feature_level), read_layout(input_layout), read_layout(output_layout), views=views
    )
    program = lower_nodes(read_slicing_nodes(read_with_shapes(model, input_shapes)), options)
    if strict:
        program.raise_refused()
    return program

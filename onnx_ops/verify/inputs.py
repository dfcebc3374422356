"""Inputs to run an ONNX model on: given ones, and random ones that fit the model's types and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ops.infer.inference import infer_shapes
from onnx_ops.infer.resolve import bind_shapes
from onnx_ops.lowering import open_view
from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.nodes import read_int, sizes_of
from onnx_ops.model.views import dims_of
from sliceport.engines import inputs as random_inputs
from sliceport.engines.engine import Array
from sliceport.engines.inputs import DeclaredInput
from sliceport.engines.sizes import InputShapes
from sliceport.errors import InvalidSlice, UsageError
from sliceport.slicing.spec import normalize_axis

_COPYING = {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice", "Split", "Expand"}
"""Operators whose outputs hold elements of their first input."""
_INDEXED = {"Gather", "GatherElements"}
"""Operators whose second input indexes the attribute `axis` of their first input."""
_MAX_INDEX = 100
"""The exclusive upper bound of random integers that index no shorter axis."""


def make_inputs(
    model: ir.Model, shapes: InputShapes, given: Mapping[str, Array], seed: int, attempt: int = 0
) -> dict[str, Array]:
    """Return the given arrays, and a random array for each other input of the main graph without an initializer.

    In attempt 0, random integers are below the known sizes of the axes that they index by Gather or GatherElements.

    Args:
        model: The model, its functions inlined.
        shapes: Shapes by name, for inputs with open sizes. A shape for an output of a node is only checked.
        given: Arrays by name, for any inputs, including inputs with a default.
        seed: The seed of the random arrays.
        attempt: See `ModelToRun.make_inputs`.

    Raises:
        UsageError: A given array or shape is for an unknown name or does not fit, or an array is for a constant (an
            initializer before IR version 4). Or an input without an array has an open or too large shape, is not a
            tensor or has no declared element type. Or an output of a node has another shape than the given one.
    """
    replaceable_names = [value.name for value in list_replaceable_inputs(model)]
    declared = []
    for value in model.graph.inputs:
        name = value.name or ""
        if value.is_initializer() and name in given and name not in replaceable_names:
            raise UsageError(f"input {name!r} is a constant, an initializer before IR version 4; give no array for it.")
        if not value.is_initializer() or name in given:
            if not isinstance(value.type, ir.TensorType) and name not in given:
                raise UsageError(f"input {name!r} is not a tensor; models with such inputs cannot be compared.")
            declared.append(DeclaredInput(name, _dtype_of(value), dims_of(value.shape), _index_bound(value)))
    # Sizes may be given for outputs of nodes too, see `bind_shapes`.
    computed_names = {output.name or "" for node in model.graph for output in node.outputs} if shapes else set()
    names_with_shapes = computed_names | {value.name or "" for value in model.graph.inputs}
    arrays = random_inputs.make_inputs(declared, given, shapes, seed, attempt, names_with_shapes)
    # The sizes for outputs of nodes are only checked: these calls raise an error if a size does not fit.
    if not computed_names.isdisjoint(shapes):
        with open_view(model) as (view, _):
            all_shapes = {**shapes, **{name: array.shape for name, array in arrays.items()}}
            bind_shapes(view, all_shapes)
            infer_shapes(view, all_shapes)
    return arrays


def _dtype_of(value: ir.Value) -> np.dtype[Any] | None:
    """Return the type of a value's elements in NumPy or ml_dtypes. Return None if the model does not declare it."""
    return None if value.dtype in (None, ir.DataType.UNDEFINED) else np.dtype(value.dtype.numpy())


def list_replaceable_inputs(model: ir.Model) -> list[ir.Value]:
    """Return the inputs of the main graph with a default. Before IR version 4, initializers are constants instead."""
    has_defaults = model.ir_version >= REPLACEABLE_VERSION
    return [value for value in model.graph.inputs if has_defaults and value.is_initializer()]


def _index_bound(value: ir.Value) -> int:
    """Return an exclusive upper bound for the integers of a value, between 1 and `_MAX_INDEX`.

    It is the known size of the smallest axis that the value indexes in a node of `_INDEXED`, directly or after nodes
    of `_COPYING`.
    """
    bound = _MAX_INDEX
    visited: set[int] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if id(current) in visited:
            continue
        visited.add(id(current))
        for node, input_index in current.uses():
            if node.op_type in _COPYING and input_index == 0:
                pending += node.outputs
            elif node.op_type in _INDEXED and input_index == 1 and node.inputs[0] is not None:
                with suppress(InvalidSlice):  # an unknown rank, or an axis that onnxruntime refuses
                    sizes = sizes_of(node.inputs[0]) or ()  # an unknown rank becomes 0, for which no axis is valid
                    size = sizes[normalize_axis(read_int(node, "axis", 0), len(sizes))]
                    bound = bound if size is None else min(bound, size)
    return max(bound, 1)  # an axis of size 0 has no valid index

"""Inputs to run an ONNX model on: given ones, and random ones that fit the model's types and ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ops.infer.inference import infer_shapes
from onnx_ops.infer.resolve import bind_shapes
from onnx_ops.lowering import open_view
from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.io import data_closed
from onnx_ops.model.nodes import constant, read_elements, read_int, read_ints, shape_of
from onnx_ops.model.views import dims_of
from onnx_ops.model.walk import all_nodes
from sliceport.engines import inputs as random_inputs
from sliceport.engines.engine import Array
from sliceport.engines.inputs import DeclaredInput
from sliceport.engines.sizes import InputShapes, sizes_of_symbols
from sliceport.errors import DynamicSlice, InvalidSlice, UsageError

_COPYING = {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice", "Split", "Expand"}
"""Operators whose outputs hold elements of their first input."""
_INDEXED = {"Gather", "GatherElements", "ScatterElements"}
"""Operators whose second input indexes the attribute `axis` of their first input."""
_COUNTS = {("ConstantOfShape", 0), ("Expand", 1), ("Tile", 1), ("Loop", 0), ("Range", 1)}
"""Operators and positions of inputs that are sizes or counts, for which large integers take long."""
_COMPARING = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
_MAX_COUNT = 4
"""The largest random integer for an input in `_COUNTS`."""
_LISTS = {"Reshape": 1, "Expand": 1, "Slice": 4}
"""The position of an input with sizes or steps, by operator."""
_MAX_LISTED = 16
"""Limit for the elements of a constant that is read."""
_MAX_FACTORS = 8
"""Limit for the sizes that `find_size_factors` finds."""


def make_inputs(
    model: ir.Model, shapes: InputShapes, given: Mapping[str, Array], seed: int, attempt: int = 0
) -> dict[str, Array]:
    """Return the given arrays, and a random array for each other input of the main graph without an initializer.

    Random integers that index an axis, as in a Gather, are within this axis; see `_find_bounds`.

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
    all_shapes = {**shapes, **{name: array.shape for name, array in given.items()}}
    sizes = sizes_of_symbols({value.name or "": dims_of(value.shape) for value in model.graph.inputs}, all_shapes)
    declared = []
    for value in model.graph.inputs:
        name = value.name or ""
        if value.is_initializer() and name in given and name not in replaceable_names:
            raise UsageError(f"input {name!r} is a constant, an initializer before IR version 4; give no array for it.")
        if not value.is_initializer() or name in given:
            if not isinstance(value.type, ir.TensorType) and name not in given:
                raise UsageError(f"input {name!r} is not a tensor; models with such inputs cannot be compared.")
            with data_closed(model):
                uses = _read_uses(value, all_shapes, sizes)
            dtype = None if value.dtype in (None, ir.DataType.UNDEFINED) else np.dtype(value.dtype.numpy())
            declared.append(DeclaredInput(name, dtype, dims_of(value.shape), **uses))
    # Sizes may be given for outputs of nodes too, see `bind_shapes`.
    computed_names = {output.name or "" for node in model.graph for output in node.outputs} if shapes else set()
    names_with_shapes = computed_names | {value.name or "" for value in model.graph.inputs}
    arrays = random_inputs.make_inputs(declared, given, shapes, seed, attempt, names_with_shapes)
    # The sizes for outputs of nodes are only checked: these calls raise an error if a size does not fit.
    if not computed_names.isdisjoint(shapes):
        view, _ = open_view(model)
        all_shapes |= {name: array.shape for name, array in arrays.items()}
        bind_shapes(view, all_shapes)
        infer_shapes(view, all_shapes)
    return arrays


def list_replaceable_inputs(model: ir.Model) -> list[ir.Value]:
    """Return the inputs of the main graph with a default. Before IR version 4, initializers are constants instead."""
    has_defaults = model.ir_version >= REPLACEABLE_VERSION
    return [value for value in model.graph.inputs if has_defaults and value.is_initializer()]


def _read_uses(value: ir.Value, shapes: InputShapes, sizes: Mapping[Any, int]) -> dict[str, Any]:
    """Return the fields `bounds`, `constants` and `total` of `DeclaredInput` that the uses of an input ask for.

    Nodes use the input directly or after nodes of `_COPYING`. The arguments are those of `_dims_with_sizes`.
    """
    starts, ends, constants, total = [0], list[int](), list[float](), None
    pending, visited = [value], set[int]()
    while pending:
        current = pending.pop()
        for node, position in () if id(current) in visited else current.uses():
            if node.op_type in _COPYING and position == 0:
                pending += node.outputs
            elif node.op_type in _COMPARING:
                other = node.inputs[1 - position]
                elements = None if other is None else read_elements(other, 1)
                constants += [] if elements is None or elements.dtype.kind not in "iuf" else elements.ravel().tolist()
            elif (node.op_type, position) in _COUNTS:
                starts.append(1)
                ends.append(_MAX_COUNT + 1)
            elif node.inputs and node.inputs[0] is not None:
                dims = _dims_with_sizes(node.inputs[0], shapes, sizes)
                with suppress(InvalidSlice, DynamicSlice, IndexError):  # an axis that onnxruntime refuses
                    if node.op_type == "Split" and position == 1:
                        total = dims[read_int(node, "axis", 0)]
                    for start, end in _list_bounds(node, position, dims):
                        starts.append(start)
                        ends.append(end)
        visited.add(id(current))
    bounds = (max(starts), max(min(ends), 1)) if ends else None
    return {"bounds": bounds, "constants": tuple(dict.fromkeys(constants)), "total": total}


def _dims_with_sizes(value: ir.Value, shapes: InputShapes, sizes: Mapping[Any, int]) -> Sequence[int | None]:
    """Return the sizes of a value at the given shapes of inputs and sizes of symbols. Return () for an unknown rank."""
    dims = shapes.get(value.name or "", dims_of(shape_of(value)) or ())
    return [dim if isinstance(dim, int) else sizes.get(dim) for dim in dims]


def _list_bounds(node: ir.Node, position: int, dims: Sequence[int | None]) -> list[tuple[int, int]]:
    """Return bounds for the integers of an input of a node, one for each known size that limits them.

    The starts of a Slice are in the first half of the axis, and the ends in the second half, so that it selects
    something.

    Args:
        node: The node.
        position: The position of the input.
        dims: The sizes of the first input, None for each unknown one.
    """
    kind = node.op_type
    axes: Sequence[int] = ()
    if (kind in _INDEXED or kind == "TopK") and position == 1:
        axes = [read_int(node, "axis", -1 if kind == "TopK" else 0)]
    elif kind == "Slice" and position in (1, 2):
        axes = _read_input(node, 3) or range(len(dims))
    elif kind == "GatherND" and position == 1:
        axes = range(len(dims))
    elif kind in ("LSTM", "GRU", "RNN") and position == 4:
        axes = [0]
    sizes = [size for axis in axes if (size := dims[axis]) is not None]
    if kind == "Slice":
        is_second_half = (position == 2) != any(step < 0 for step in _read_input(node, 4))
        return [((size + 1) // 2, size + 1) if is_second_half else (0, (size + 1) // 2) for size in sizes]
    return [(0, size) if kind in _INDEXED or kind == "GatherND" else (1, size + 1) for size in sizes]


def find_size_factors(model: ir.Model) -> list[int]:
    """Return the product of the strides on a path through a model, if it is not 1, and then sizes that the model names.

    The sizes are those in constant shapes of Reshape and Expand, their products, and those of constants that a node
    adds to or multiplies with a value. The most frequent ones come first.
    """
    scales: dict[ir.Value | None, int] = {}
    named: Counter[int] = Counter()
    with data_closed(model):
        for node in all_nodes(model.graph):
            factors: list[int] = []
            with suppress(InvalidSlice, DynamicSlice):
                factors += [read_int(node, "blocksize", 1)] if node.op_type == "SpaceToDepth" else []
                factors += read_ints(node, "strides") or () if node.op_type.endswith(("Conv", "Pool")) else ()
            integers = _read_input(node, _LISTS.get(node.op_type, len(node.inputs)))
            if node.op_type == "Slice":
                factors += map(abs, integers)
            elif node.op_type in ("Add", "Mul", "Where", "Concat"):
                tensors = [constant(value) for value in node.inputs if value is not None]
                named.update(size for tensor in tensors if tensor is not None for size in tensor.shape.numpy())
            else:
                sizes = [size for size in integers if size > 1]
                named.update([*sizes, prod(sizes)])  # a size may be split into all of them
            scale = max((scales.get(value, 1) for value in node.inputs), default=1) * max(factors, default=1)
            scales |= dict.fromkeys(node.outputs, scale)
    largest = max(scales.values(), default=1)
    frequent = [size for size, _ in named.most_common(_MAX_FACTORS + 2) if size > 1]
    return [*([largest] if largest > 1 else []), *frequent[:_MAX_FACTORS]]


def _read_input(node: ir.Node, position: int) -> list[int]:
    """Return the elements of an input of a node if they are few constant int64; otherwise return []."""
    value = node.inputs[position] if position < len(node.inputs) else None
    elements = None if value is None else read_elements(value, _MAX_LISTED)
    return [] if elements is None or elements.dtype != np.int64 else [int(element) for element in elements.flat]

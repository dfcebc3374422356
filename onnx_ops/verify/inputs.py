"""Inputs to run a model on: given ones, and random ones that fit the model's types and ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_ops.model.check import REPLACEABLE_VERSION
from sliceport.errors import UsageError
from sliceport.wording import example_shapes, spell

Array = npt.NDArray[Any]

_COPYING = {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice", "Split", "Expand"}
_INDEXED = {"Gather", "GatherElements"}
_MAX_INDEX = 100
_BOUNDS: tuple[tuple[int | None, int], ...] = ((None, 0), (None, 1), (2, 0), (1, 0))
"""The exclusive upper bound of random integers by attempt, and the least; None for the size of the axis they index."""
_MAX_RANDOM = 2**26
_BYTE = 8
_OF_NUMPY = 1
"""The value of `isbuiltin` for NumPy's own types."""
_MAX_SPAN = 2**58
"""The largest product of the sizes other than 0 that NumPy takes."""


def make_inputs(
    model: ir.Model,
    shapes: Mapping[str, Sequence[int]],
    given: Mapping[str, Array],
    seed: int,
    attempt: int = 0,
) -> dict[str, Array]:
    """Make an array for each input of the main graph that has no initializer; keep the given ones.

    Args:
        model: The model, its functions inlined.
        shapes: Sizes by input name, for inputs with open sizes.
        given: Arrays that are used as they are.
        seed: For the random ones.
        attempt: From 0 to 3. A later attempt has smaller integers, as indices and divisors may need.

    Raises:
        UsageError: A given array does not fit, a shape is for an unknown name, or an input has an open shape or a type
            that NumPy lacks.
    """
    by_name = {value.name or "": value for value in model.graph.inputs}
    for name in given:
        if name not in by_name:
            raise UsageError(f"the model has no input {name!r} to give an array to.")
        if by_name[name].is_initializer() and by_name[name] not in overridable_inputs(model):
            raise UsageError(f"input {name!r} is a constant of the model before IR version 4, so it takes no array.")
    for name in given.keys() & shapes.keys():
        if tuple(shapes[name]) != given[name].shape:
            was = f"shape {list(shapes[name])} and an array of shape {list(given[name].shape)}"
            raise UsageError(f"input {name!r} is given {was}.")
    unknown = [name for name in shapes if name not in by_name]
    if unknown:
        values = {output.name for node in model.graph for output in node.outputs}
        for name in unknown:
            if name not in values:  # `lower` takes shapes of these, too
                listed = ", ".join(repr(name) for name, value in by_name.items() if not value.is_initializer())
                raise UsageError(f"the model has no input {name!r} to give a shape to; its inputs are {listed}.")
    random = np.random.default_rng(seed)
    most, least = _BOUNDS[attempt]
    inputs: dict[str, Array] = {}
    for name, value in by_name.items():
        if name in given:
            inputs[name] = _convert_given_array(value, given[name])
        elif not value.is_initializer():
            inputs[name] = _random(value, shapes, random, most, least)
    return inputs


def overridable_inputs(model: ir.Model) -> list[ir.Value]:
    """Return the inputs of the main graph that have a default; before IR version 4 an initializer is a constant."""
    return (
        [value for value in model.graph.inputs if value.is_initializer()]
        if model.ir_version >= REPLACEABLE_VERSION
        else []
    )


def _convert_given_array(value: ir.Value, array: Array) -> Array:
    """Return a given array in the element type of an input, or raise a UsageError if type or shape differ."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if value.dtype == ir.DataType.STRING and array.dtype.kind == "U":
        array = array.astype(object)
    has_bad_text = value.dtype == ir.DataType.STRING and not all(isinstance(each, str) for each in array.flat)
    if value.dtype is not None and (array.dtype != (expected := value.dtype.numpy()) or has_bad_text):
        is_raw = array.dtype.kind in "Vu" and array.dtype.itemsize == expected.itemsize and array.dtype.names is None
        if not is_raw or expected.isbuiltin == _OF_NUMPY:
            elements = "text" if value.dtype == ir.DataType.STRING else f"{expected} elements"
            raise UsageError(f"input {value.name!r} needs {elements}, got {array.dtype}.")
        if not _are_elements(array, value.dtype):
            raise UsageError(f"input {value.name!r} needs {expected} elements, got bytes that are not elements.")
        array = array.view(expected)  # NumPy loads types that it lacks, such as bfloat16, as raw bytes
    if value.shape is not None:
        fits = len(value.shape) == array.ndim and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(value.shape, array.shape, strict=True)
        )
        if not fits:
            raise UsageError(f"input {value.name!r} needs shape {list(value.shape)}, got {list(array.shape)}.")
    return array


def _are_elements(raw: Array, dtype: ir.DataType) -> bool:
    """Return whether raw bytes are elements; one of less than a byte is the lower bits of a byte."""
    bits = dtype.bitwidth
    if bits >= _BYTE:
        return True
    if dtype.is_integer() and dtype.is_signed():
        signed = raw.view(np.int8)
        return bool(((signed >= -(2 ** (bits - 1))) & (signed < 2**bits)).all())
    return bool((raw.view(np.uint8) < 2**bits).all())


def _random(
    value: ir.Value, shapes: Mapping[str, Sequence[int]], random: np.random.Generator, most: int | None, least: int
) -> Array:
    if not isinstance(value.type, ir.TensorType):
        raise UsageError(f"input {value.name!r} is not a tensor; models with such inputs cannot be compared.")
    shape = shapes.get(value.name or "", value.shape)
    if shape is None or any(not isinstance(dim, int) for dim in shape):
        dims = None if shape is None else [d if isinstance(d, int) else d.value for d in shape]
        raise UsageError(
            f"the shape of input {value.name!r} is open: give sizes, as in "
            f"{example_shapes({value.name or '': dims})} (an example)."
        )
    bound = max(most or _index_bound(value), least + 1)
    return random_array(value.type.dtype, tuple(shape), random, bound, least)  # type: ignore[arg-type]


def random_array(
    dtype: ir.DataType, shape: tuple[int, ...], random: np.random.Generator, most: int, least: int = 0
) -> Array:
    """Make random elements: normally distributed floats, integers from `least` up to below `most`, booleans.

    Raises:
        UsageError: NumPy has no such array, or it is too large.
    """
    if prod(shape) > _MAX_RANDOM:
        raise UsageError(
            f"random data of shape {list(shape)} have more than {_MAX_RANDOM} elements; give an array "
            f"{spell('in inputs', 'with --input')}."
        )
    if prod(filter(None, shape)) > _MAX_SPAN:
        raise UsageError(f"NumPy has no array of shape {list(shape)}, although it would be empty.")
    if dtype == ir.DataType.STRING:
        return random.integers(0, 1000, shape).astype(str).astype(object)
    if dtype == ir.DataType.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer():
        bound = most if dtype.bitwidth >= 8 else 2
        return random.integers(min(least, bound - 1), bound, shape).astype(dtype.numpy())
    if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype.numpy())
    if dtype == ir.DataType.UNDEFINED:
        raise UsageError("an input has no element type.")
    return np.asarray(random.standard_normal(shape)).astype(dtype.numpy())


def _index_bound(value: ir.Value) -> int:
    """Return the size of the smallest axis that a value indexes, directly or through nodes that keep its elements."""
    bound = _MAX_INDEX
    seen: set[int] = set()
    front = [value]
    while front:
        current = front.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for node, position in current.uses():
            if node.op_type in _COPYING and position == 0:
                front += node.outputs
            elif node.op_type in _INDEXED and position == 1 and node.inputs[0] is not None:
                shape = node.inputs[0].shape
                axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
                size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
                if isinstance(size, int):
                    bound = min(bound, size)
    return max(bound, 1)

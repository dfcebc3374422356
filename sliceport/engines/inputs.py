"""Inputs to run a model on: the caller's arrays, which are checked, and random arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

from sliceport.engines.engine import Array, WholeModel
from sliceport.engines.sizes import InputShapes
from sliceport.errors import UsageError
from sliceport.wording import Dims, example_shapes, spell

ATTEMPTS = 4
"""The number of ranges of random integers, which are tried until a model runs."""
_BOUNDS: Sequence[tuple[int, int | None]] = ((0, None), (1, None), (0, 2), (0, 1))
"""For each attempt, the lower bound of random integers, and the exclusive upper one (None for `DeclaredInput.end`)."""
_MAX_RANDOM = 2**26
"""The largest number of elements of a random array."""
_MAX_SPAN = 2**58
"""NumPy accepts sizes whose product, without sizes of 0, is at most this, for elements of up to 16 bytes."""


class ModelToRun(Protocol):
    """A model that an engine runs, and that can make its own inputs.

    Attributes:
        inputs: The names of the inputs that a caller has to give.
        outputs: The names of the outputs.
    """

    @property
    def inputs(self) -> Sequence[str]: ...  # noqa: D102 - see the class

    @property
    def outputs(self) -> Sequence[str]: ...  # noqa: D102 - see the class

    def whole(self) -> WholeModel:
        """Return the whole model."""

    def make_inputs(
        self, inputs: Mapping[str, Array], shapes: InputShapes, seed: int, attempt: int
    ) -> dict[str, Array]:
        """Return the given arrays, and random arrays for the other inputs.

        An array for an input with a default may replace this default in the model. It is then not returned.

        Args:
            inputs: Arrays that are used as they are.
            shapes: Sizes for inputs with open shapes.
            seed: The seed of the random arrays.
            attempt: From 0 to 3. Random integers are from 0 to 99, or less if they index a shorter axis. In attempt 1,
                they are not 0, because they may be divisors. They are 0 or 1 in attempt 2, and 0 in attempt 3.

        Raises:
            UsageError: An array or a name does not fit, or a shape is open or too large.
        """


@dataclass(frozen=True)
class DeclaredInput:
    """An input of a model.

    Attributes:
        name: Its name.
        dtype: Its element type in NumPy or ml_dtypes, `object` for strings; None if it declares no such type.
        dims: Its sizes: a number, or for an open size a symbol or None; None for an open rank.
        end: The exclusive upper bound of random integers.
    """

    name: str
    dtype: np.dtype[Any] | None
    dims: Dims | None
    end: int = 100


def make_inputs(
    declared: Sequence[DeclaredInput],
    arrays: Mapping[str, Array],
    shapes: InputShapes,
    seed: int,
    attempt: int = 0,
    values: Collection[str] = (),
) -> dict[str, Array]:
    """Return the caller's arrays, and random arrays for the other inputs; see `ModelToRun.make_inputs`.

    `values` are names of values other than inputs. Shapes for these values in `shapes` are accepted, but not used.

    Raises:
        UsageError: An array does not fit the model or `shapes`, a name is unknown, the shape of an input is open or too
            large, or an input without an array has a type that NumPy and ml_dtypes lack.
    """
    names = [model_input.name for model_input in declared]
    names_text = ", ".join(map(repr, names))
    for name in arrays:
        if name not in names:
            raise UsageError(f"an array is given for {name!r}, which is not an input; the inputs are {names_text}.")
    for name in shapes:
        if name not in names and name not in values:
            raise UsageError(f"the model has no input {name!r} to give a shape to; its inputs are {names_text}.")
    for name in arrays.keys() & shapes.keys():
        if tuple(shapes[name]) != arrays[name].shape:
            shapes_text = f"shape {list(shapes[name])} and an array of shape {list(arrays[name].shape)}"
            raise UsageError(f"input {name!r} is given {shapes_text}.")
    random = np.random.default_rng(seed)
    start, end = _BOUNDS[attempt]
    inputs = {}
    for model_input in declared:
        if model_input.name in arrays:
            inputs[model_input.name] = _fit_given_array(model_input, arrays[model_input.name])
        elif model_input.dtype is None:
            problem = f"input {model_input.name!r} declares no element type of NumPy or ml_dtypes"
            raise UsageError(f"{problem}; give an array {spell('in inputs', 'with --input')}.")
        else:
            end_of_input = max(end or model_input.end, start + 1)  # the range is not empty, even if the end is 1
            shape = _choose_shape(model_input, shapes)
            inputs[model_input.name] = random_array(model_input.dtype, shape, random, start, end_of_input)
    return inputs


def more_inputs(
    model: ModelToRun, shapes: InputShapes, arrays: Mapping[str, Array], seed: int
) -> Iterator[dict[str, Array]]:
    """Yield further inputs for a model that runs on inputs of these shapes; nothing if the caller gives all inputs."""
    if set(model.inputs) <= arrays.keys():
        return
    for more in range(1, 4):
        yield model.make_inputs(arrays, shapes, seed + 1000 + more, 0)


def _choose_shape(model_input: DeclaredInput, shapes: InputShapes) -> tuple[int, ...]:
    """Return the caller's shape of an input, or else the declared shape. Raise a UsageError if a size is open."""
    dims = shapes.get(model_input.name, model_input.dims)
    sizes = [dim for dim in dims or () if isinstance(dim, int)]
    if dims is None or len(sizes) < len(dims):
        example = f"{example_shapes({model_input.name: dims})} (an example)"
        raise UsageError(f"the shape of input {model_input.name!r} is open: give sizes, as in {example}.")
    return tuple(sizes)


def _fit_elements(name: str, dtype: np.dtype[Any], array: Array) -> Array:
    """Return the array of an input with elements of `dtype`, or raise a UsageError.

    For a type of ml_dtypes, such as bfloat16, the array may also hold unsigned integers or raw bytes of the same size.
    NumPy loads types of ml_dtypes from files as raw bytes.
    """
    is_text = dtype == np.dtype(object)
    if is_text and array.dtype.kind == "U":
        array = array.astype(object)
    if array.dtype == dtype and (not is_text or all(isinstance(text, str) for text in array.flat)):
        return array
    # `isbuiltin` is 2 for types of ml_dtypes, which have the kind V, too.
    is_raw = array.dtype.kind in "Vu" and array.dtype.isbuiltin != 2 and array.dtype.names is None
    if not is_raw or array.dtype.itemsize != dtype.itemsize or dtype.isbuiltin != 2:
        elements = "text" if is_text else f"{dtype} elements"
        kind = "objects that are not all str" if array.dtype == dtype else str(array.dtype)
        raise UsageError(f"input {name!r} needs {elements}, got {kind}.")
    if not _are_valid_bits(array, dtype):
        raise UsageError(f"input {name!r} needs {dtype} elements, got bytes that are not {dtype} elements.")
    return array.view(dtype)


def _fit_given_array(model_input: DeclaredInput, array: Array) -> Array:
    """Return the caller's array with the element type of an input. Raise a UsageError if type or shape do not fit."""
    name, dtype, dims = model_input.name, model_input.dtype, model_input.dims
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # files may have the other byte order
    if dtype is not None:
        array = _fit_elements(name, dtype, array)
    if dims is not None:
        dims_and_sizes = zip(dims, array.shape, strict=False)
        if len(dims) != array.ndim or any(isinstance(dim, int) and dim != size for dim, size in dims_and_sizes):
            raise UsageError(f"input {name!r} needs shape {list(dims)}, got {list(array.shape)}.")
    return array


def _count_bits(dtype: np.dtype[Any]) -> int:
    import ml_dtypes

    return int((ml_dtypes.iinfo if "int" in dtype.name else ml_dtypes.finfo)(dtype).bits)


def _are_valid_bits(raw: Array, dtype: np.dtype[Any]) -> bool:
    """Return whether raw bytes are valid elements of a type. An element of less than a byte is in the lower bits."""
    bits = _count_bits(dtype)
    if bits >= 8:
        return True
    # The upper bits must be 0, or repeat the sign bit of a negative integer. So a valid element is, as a signed byte,
    # at least `least` and less than 2**bits.
    signed = raw.view(np.int8)
    least = -(2 ** (bits - 1)) if dtype.name.startswith("int") else 0
    return bool(((signed >= least) & (signed < 2**bits)).all())


def random_array(
    dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator, start: int, end: int
) -> Array:
    """Return random elements: floats, complex numbers, integers from `start` to `end` - 1, booleans, or strings.

    Floats and complex numbers are normally distributed; floats have 32 bits of precision at most. Integers of less than
    a byte are below 2, so `start` must be 0 or 1. Strings consist of 1 to 3 digits.

    Raises:
        UsageError: The array has more than `_MAX_RANDOM` elements, or NumPy cannot represent its shape.
    """
    if prod(shape) > _MAX_RANDOM:
        advice = f"give an array {spell('in inputs', 'with --input')}"
        raise UsageError(f"random data of shape {list(shape)} have more than {_MAX_RANDOM} elements; {advice}.")
    if prod(filter(None, shape)) > _MAX_SPAN:
        raise UsageError(f"NumPy cannot make an array of shape {list(shape)}, although it would be empty.")
    if dtype.kind == "O":
        return random.integers(0, 1000, shape).astype(str).astype(object)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if "int" in dtype.name:
        end = end if _count_bits(dtype) >= 8 else min(end, 2)  # 0 and 1 fit into every type below a byte
        return random.integers(start, end, shape).astype(dtype)
    if dtype.kind == "c":
        return np.asarray(random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
    # Doubles are rounded to 32 bits, because OpenVINO's CPU plugin narrows them even where it only moves them.
    return np.asarray(random.standard_normal(shape)).astype(np.float32).astype(dtype)

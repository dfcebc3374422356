"""Inputs to run a model on: the caller's arrays, which are checked, and random arrays at sizes that it runs with."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol

import numpy as np

from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, Side
from sliceport.engines.sizes import DeclaredShapes, InputShapes, SizeChoice, sizes_to_try
from sliceport.errors import ModelError, UsageError
from sliceport.sandbox.progress import announce
from sliceport.wording import Dims, count_of, example_shapes, list_names, phrase_for_shapes, spell

_BOUNDS = ((0, 100), (1, 100), (0, 2), (0, 1), (1, 2))
"""For each attempt, the lower and the exclusive upper bound of random integers."""
ATTEMPTS = len(_BOUNDS)
"""The number of ranges of random integers, which are tried until a model runs."""
_KEEPS_INDICES = (0, 1, 4)
"""The attempts in which an input that indexes has a range of its own. Attempt 4 is for masks beside indices."""
_AT_FIRST_SIZES, _AT_OTHER_SIZES = (0, 1, 4, 2, 3), (0, 4)
"""The attempts at the first choice of sizes, the most telling ones first, and at later choices."""
_SECONDS = 60.0
"""The time after which no further sizes are tried."""
_MORE_SEEDS = 2
"""The number of other seeds in `more_inputs`."""
_MAX_RANDOM = 2**26
"""The largest number of elements of a random array."""
_MAX_SPAN = 2**58
"""NumPy accepts sizes whose product, without sizes of 0, is at most this, for elements of up to 16 bytes."""


class ModelToRun(Protocol):
    """A model that an engine runs, and that can make its own inputs.

    Attributes:
        inputs: The names of the inputs that a caller has to give.
        outputs: The names of the outputs.
        declared_shapes: The declared shapes of `inputs`.
    """

    @property
    def inputs(self) -> Sequence[str]: ...  # noqa: D102 - see the class

    @property
    def outputs(self) -> Sequence[str]: ...  # noqa: D102 - see the class

    @property
    def declared_shapes(self) -> DeclaredShapes: ...  # noqa: D102 - see the class

    def size_factors(self) -> Sequence[int]:
        """Return divisors of the sizes of inputs that the model may need, and sizes that it names."""

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
            attempt: From 0 to 4. Random integers are from 0 to 99, or within the axis that they index. In attempt 1,
                they are not 0, because they may be divisors. They are 0 or 1 in attempt 2, and 0 in attempt 3. In
                attempt 4, all integers but indices are 1.

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
        bounds: For an input that indexes an axis or counts, the bounds of random integers, the upper one exclusive.
        constants: The constants that the model compares the input with. If the input has one element, it takes each of
            them in turn as the seed grows, and then a random value. In attempt 4, it takes the first one.
        total: The sum of the elements, if they are the sizes of parts.
    """

    name: str
    dtype: np.dtype[Any] | None
    dims: Dims | None
    bounds: tuple[int, int] | None = None
    constants: tuple[float, ...] = ()
    total: int | None = None


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
    inputs = {}
    for model_input in declared:
        if model_input.name in arrays:
            inputs[model_input.name] = _fit_given_array(model_input, arrays[model_input.name])
        elif model_input.dtype is None:
            problem = f"input {model_input.name!r} declares no element type of NumPy or ml_dtypes"
            raise UsageError(f"{problem}; give an array {spell('in inputs', 'with --input')}.")
        else:
            start, end = _BOUNDS[attempt]
            if model_input.bounds is not None and attempt in _KEEPS_INDICES:
                start, end = max(model_input.bounds[0], attempt % 4), model_input.bounds[1]
            shape = _choose_shape(model_input, shapes)
            array = random_array(model_input.dtype, shape, random, start, max(end, start + 1))  # never an empty range
            # At most sizes, there are only attempts 0 and 4. One of them has the first constant, whatever the seed.
            choice = (seed + attempt) % (len(model_input.constants) + 1) if attempt < 4 else 0
            if array.size == 1 and choice < len(model_input.constants):
                array = np.full_like(array, model_input.constants[choice])
            if model_input.total is not None and array.size and attempt in _KEEPS_INDICES:
                parts = np.bincount(random.integers(0, array.size, model_input.total), minlength=array.size)
                array = parts.reshape(array.shape).astype(array.dtype)
            inputs[model_input.name] = array
    return inputs


@dataclass(frozen=True)
class FoundInputs:
    """Inputs that an engine ran a model on.

    Attributes:
        arrays: The inputs by name.
        sizes: The choice of their shapes.
        attempt: The attempt of `ModelToRun.make_inputs` that made them.
        result: The outputs, or the failure of the run.
        tried: The number of runs up to this one, or of all runs if none succeeded.
    """

    arrays: dict[str, Array]
    sizes: SizeChoice
    attempt: int
    result: Result
    tried: int = 1

    @property
    def outputs(self) -> Mapping[str, Value]:
        """The outputs of a run that succeeded."""
        assert not isinstance(self.result, Failure)
        return self.result


def find_inputs(
    model: ModelToRun, side: Side, shapes: InputShapes, arrays: Mapping[str, Array], seed: int
) -> FoundInputs:
    """Return the first inputs that an engine runs a model on; see `sizes_to_try` and `ModelToRun.make_inputs`.

    Announce the sizes that were chosen. If the engine runs none of the inputs, return the first ones.

    Args:
        model: The model.
        side: The engine.
        shapes: The caller's shapes, including those of `arrays`.
        arrays: The caller's arrays.
        seed: The seed of random arrays.

    Raises:
        UsageError: See `ModelToRun.make_inputs` and `Side.run`.
        BudgetSpent, MemoryError, MissingExtra, ChildLost: See `Side.run`.
    """
    failures: list[FoundInputs] = []
    errors: list[UsageError] = []
    end = time.monotonic() + _SECONDS
    attempts: Sequence[int] = _AT_FIRST_SIZES
    for sizes in sizes_to_try(model.declared_shapes, shapes, model.size_factors):
        earlier: list[Mapping[str, Array]] = []
        for attempt in attempts:
            try:
                inputs = model.make_inputs(arrays, sizes.shapes, seed, attempt)
            except UsageError as error:
                errors.append(error)
                break
            if any(all(map(np.array_equal, inputs.values(), each.values())) for each in earlier):
                continue
            earlier.append(inputs)
            result = side.try_run(model.whole(), inputs)
            found = FoundInputs(inputs, sizes, attempt, result, len(failures) + 1)
            if not isinstance(result, Failure):
                announce_sizes(sizes.chosen)
                return found
            failures.append(found)
            if result.kind == "memory":  # the machine is to blame, so a caller must not try other inputs
                return found
        attempts = _AT_OTHER_SIZES
        if time.monotonic() > end:
            break
    if not failures:
        raise errors[0]
    return replace(failures[0], tried=len(failures))


def announce_sizes(chosen: InputShapes) -> None:
    """Announce sizes that were chosen, with the option for other sizes."""
    if chosen:
        texts = "; ".join(f"{name} {','.join(map(str, shape))}" for name, shape in chosen.items())
        name = next(iter(chosen))
        option = spell(f"input_shapes={{{name!r}: …}}", f"--input-shapes {name}:…")
        announce(f"sizes: {texts} (chosen; {option} for others)")


def find_inputs_that_run(
    model: ModelToRun,
    side: Side,
    shapes: InputShapes,
    arrays: Mapping[str, Array],
    seed: int,
    title: str = "the model",
) -> FoundInputs:
    """Do as `find_inputs`, but raise a ModelError about the model, called `title`, if the engine runs no inputs.

    Raises:
        UsageError: See `ModelToRun.make_inputs` and `Side.run`.
        ModelError: The engine does not run the model on any of the inputs that were tried.
        MemoryError: The engine lacks memory.
        BudgetSpent, MissingExtra, ChildLost: See `Side.run`.
    """
    found = find_inputs(model, side, shapes, arrays, seed)
    if isinstance(found.result, Failure):
        raise_if_memory(found.result)
        raise ModelError(describe_failed_search(side, found, arrays, title))
    return found


def describe_failed_search(side: Side, found: FoundInputs, arrays: Mapping[str, Array], title: str) -> str:
    """Return a sentence about a model that runs on no inputs: what was tried, the failure, and the options to give."""
    assert isinstance(found.result, Failure)
    chosen, drawn = found.sizes.chosen, {name: array for name, array in found.arrays.items() if name not in arrays}
    tried = phrase_for_shapes({name: shape for name, shape in found.sizes.given.items() if name not in arrays})
    if chosen:
        tried += f" with {'; '.join(f'{name} {list(shape)}' for name, shape in chosen.items())}"
        tried += f" or with {count_of(found.tried - 1, 'other choice')} of sizes and values" * (found.tried > 1)
    elif drawn:
        tried += f" on {'any of ' * (found.tried > 1)}{count_of(found.tried, 'set')} of random values"
        tried += f" for {list_names(drawn)}"
    # Integers are more likely to be at fault than floats.
    name = next((name for name, array in drawn.items() if "int" in array.dtype.name), next(iter(drawn), ""))
    options = [example_shapes({name: found.sizes.declared[name] for name in chosen})] if chosen else []
    options += [spell(f"inputs={{{name!r}: …}}", f"--input {name}=FILE.npy")] if drawn else []
    advice = f"; give {' or '.join(options)}" if options else ""
    return f"{side.engine.name} does not run {title}{tried} ({found.result.message}){advice}."


def raise_if_memory(failure: Failure) -> None:
    """Raise MemoryError if a run lacked memory: the machine is to blame, so a caller must not try other inputs."""
    if failure.kind == "memory":
        raise MemoryError


def try_whole_model(side: Side, model: ModelToRun, inputs: Mapping[str, Array]) -> Result:
    """Run a model, and return its outputs by name, or the failure of the run.

    An engine that is `PlacesNodes` may try again, because its first failure may not occur again.

    Raises:
        MemoryError: The engine lacks memory.
        BudgetSpent, MissingExtra, UsageError, ChildLost: See `Side.run`.
    """
    result = side.try_run(model.whole(), inputs, [])
    if isinstance(result, Failure):
        raise_if_memory(result)
    return result


def more_inputs(
    model: ModelToRun, shapes: InputShapes, arrays: Mapping[str, Array], seed: int, attempt: int = 0
) -> Iterator[dict[str, Array]]:
    """Yield further inputs for a model that runs with these shapes, to show more of what it computes.

    At first, only the seeds differ. Then, random arrays of floats are replaced by ramps, sparse arrays, images in 0 to
    1 and waves. The last ones are scaled, or images in 0 to 255. Integers of 16 bits and more become larger. A model
    need not run on all of these.

    Args:
        model: The model.
        shapes: The shapes of all inputs with open sizes, as in `FoundInputs.sizes.shapes`.
        arrays: The caller's arrays, which are kept.
        seed: The seed of random arrays.
        attempt: The attempt that the model runs with; see `ModelToRun.make_inputs`.

    Raises:
        UsageError: See `ModelToRun.make_inputs`.
    """
    if set(model.inputs) <= arrays.keys():
        return
    for other in range(1, _MORE_SEEDS + 1):
        yield model.make_inputs(arrays, shapes, seed + other, attempt)
    base = model.make_inputs(arrays, shapes, seed, attempt)
    drawn = {name: array for name, array in base.items() if name not in arrays}
    floats = {name: array for name, array in drawn.items() if "float" in array.dtype.name}
    for change in _CHANGES if floats else ():
        changed = {}
        for position, (name, array) in enumerate(floats.items(), 1):
            # Inputs of one element, such as two limits of a range, ascend with their position.
            wide = np.full(array.shape, position / 2) if array.size == 1 else array.astype(np.float64)
            values = change(wide, np.linspace(-1, 1, array.size).reshape(array.shape))
            changed[name] = np.asarray(values).astype(array.dtype)
        yield {**base, **changed}
    integers = {name: array for name, array in drawn.items() if array.dtype in (np.int16, np.int32, np.int64)}
    for factor in (10, 100) if integers else ():
        yield {**base, **{name: array * factor for name, array in integers.items()}}


_CHANGES = (
    lambda _, ramp: ramp,
    lambda x, _: np.where(x > 1, x, 0),
    lambda x, ramp: (np.abs(x) + 3 * (ramp + 1)) % 1,
    lambda x, ramp: 0.3 * np.sin(ramp * ramp.size * np.pi / 36) + 0.01 * x,
    lambda x, _: x * 0.01,
    lambda x, _: x * 10,
    lambda x, _: x * 100,
    lambda x, ramp: np.floor((np.abs(x) + 3 * (ramp + 1)) % 1 * 256),
)
"""Functions of a random array and of a ramp from -1 to 1 of the same shape; see `more_inputs`."""


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

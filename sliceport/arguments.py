"""Arguments of Python functions: each in the form that is worked with, or one sentence that says what it must be."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

from sliceport.errors import UsageError, unknown_name
from sliceport.wording import shorten

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MAX_SIZE = 2**63 - 1
_MAX_SHOWN = 80


def read_options(options: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The options of a function, as far as they mean the same for all formats.

    Args:
        options: The options by name.
        known: The names that the function takes.

    Raises:
        UsageError: One is not known, or of the wrong type.
    """
    names = sorted(known)
    for name in options:
        if name not in names:
            raise unknown_name("option", name, names)
    return {name: _READERS[name](value) if name in _READERS else value for name, value in options.items()}


def read_path(value: Any, what: str) -> str | os.PathLike[str]:
    """The path of a file.

    Args:
        value: What is given for it.
        what: What it is in a sentence, such as `model`.

    Raises:
        UsageError: It is none.
    """
    if is_path(value):
        path: str | os.PathLike[str] = value
        return path
    raise UsageError(f"the {what} must be the path of a file, a str or os.PathLike, got {type(value).__name__}.")


def is_path(value: Any) -> bool:
    """Whether something is the path of a file; bytes are none."""
    return isinstance(value, str) or (isinstance(value, os.PathLike) and isinstance(os.fspath(value), str))


def read_input_shapes(shapes: Any) -> dict[str, tuple[int, ...]]:
    """Sizes by input; those of other libraries, such as NumPy's, become ints.

    Raises:
        UsageError: They are not by name, or a size is no integer from 0 up to below 2**63.

    >>> read_input_shapes({"x": [1, 16]})
    {'x': (1, 16)}
    """
    return {name: _read_sizes(name, sizes) for name, sizes in _items(shapes, "input_shapes", "sizes")}


def _read_sizes(name: str, sizes: Any) -> tuple[int, ...]:
    read = read_integers(sizes, f"the shape of input {name!r}")
    if any(size < 0 for size in read):
        raise UsageError(f"the shape of input {name!r} must not have negative sizes, got {list(read)}.")
    if any(size > _MAX_SIZE for size in read):
        raise UsageError(f"the shape of input {name!r} must have sizes below 2**63, got {list(read)}.")
    return read


def read_integers(values: Any, what: str) -> tuple[int, ...]:
    """A sequence of integers.

    Args:
        values: What is given for it.
        what: What it is in a sentence.

    Raises:
        UsageError: It is no sequence, or one of them is no integer.
    """
    try:
        if isinstance(values, str | bytes | Mapping | Set):
            raise TypeError
        listed = list(values)
    except TypeError:
        raise UsageError(f"{what} must be a sequence of integers, got {_show(values)}.") from None
    return tuple([_read_integer(value, f"{what} must be a sequence of integers") for value in listed])


def _read_integer(value: Any, rule: str) -> int:
    try:
        return int(operator.index(value))
    except TypeError:
        raise UsageError(f"{rule}, got {_show(value)}.") from None


def read_inputs(inputs: Any) -> dict[str, npt.NDArray[np.generic]]:
    """Arrays by input: those of NumPy, and what it makes an array of by `__array__`.

    Raises:
        UsageError: They are not by name, or one is no array.
    """
    return {name: _read_array(name, array) for name, array in _items(inputs, "inputs", "arrays")}


def _read_array(name: str, array: Any) -> npt.NDArray[np.generic]:
    import numpy as np

    if not hasattr(array, "__array__"):
        raise UsageError(f"input {name!r} must be a NumPy array, got {type(array).__name__}; numpy.array makes one.")
    try:
        return np.asarray(array)
    except Exception as error:  # whatever another library raises
        raise UsageError(
            f"input {name!r} cannot be made a NumPy array ({shorten(str(error), _MAX_SHOWN).rstrip('.')})."
        ) from None


def read_seed(seed: Any) -> int:
    """The seed of random inputs.

    Raises:
        UsageError: It is no integer from 0 up.
    """
    read = _read_integer(seed, "the seed must be an integer")
    if read < 0:
        raise UsageError(f"the seed must not be negative, got {read}.")
    return read


def read_names(names: Any, option: str) -> tuple[str, ...]:
    """A sequence of names, such as those of executors.

    Args:
        names: What is given for it; one name by itself is none.
        option: What the caller calls it.

    Raises:
        UsageError: It is none.
    """
    try:
        if isinstance(names, str | bytes):
            raise TypeError
        listed = tuple(names)
    except TypeError:
        raise UsageError(f"{option} must be a sequence of names, got {_show(names)}.") from None
    for name in listed:
        if not isinstance(name, str):
            raise UsageError(f"{option} must be a sequence of names, got {_show(name)} in it.")
    return listed


def _items(given: Any, option: str, values: str) -> Iterable[tuple[str, Any]]:
    """What an option gives by input; nothing for None."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise UsageError(f"{option} must map names of inputs to {values}, got {_show(given)}.")
    for name in given:
        if not isinstance(name, str):
            raise UsageError(f"{option} must map names of inputs to {values}, got {_show(name)} for a name.")
    return given.items()


def _show(value: Any) -> str:
    return shorten(repr(value), _MAX_SHOWN)


_READERS = {
    "input_shapes": read_input_shapes,
    "inputs": read_inputs,
    "seed": read_seed,
}

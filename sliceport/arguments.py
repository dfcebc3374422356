"""Checks of the arguments of Python functions, and their conversion to the types that the code works with."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from sliceport.errors import UsageError
from sliceport.slicing.axis import INT64_MAX
from sliceport.wording import shorten

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MAX_QUOTED = 80
"""Limit for quotes of a wrong value in messages, in characters."""


def check_path(value: Any, name: str) -> None:
    """Check that an argument is a path. Messages refer to the argument as `name`.

    Raises:
        UsageError: `value` is not a str or os.PathLike.
    """
    if not is_path(value):
        raise UsageError(f"the {name} must be the path of a file, a str or os.PathLike, got {type(value).__name__}.")


def is_path(value: Any) -> bool:
    """Return whether `value` is a path as a str or os.PathLike; bytes are not accepted."""
    return isinstance(value, str) or (isinstance(value, os.PathLike) and isinstance(os.fspath(value), str))


def read_input_shapes(shapes: Any) -> dict[str, tuple[int, ...]]:
    """Return sizes by input name, as tuples of int. Convert NumPy's integers to int, and None to an empty dict.

    Raises:
        UsageError: `shapes` is neither None nor a mapping from names, or a shape is not of integers in [0, 2**63).

    >>> read_input_shapes({"x": [1, 16]})
    {'x': (1, 16)}
    """
    result = {}
    for name, sizes in read_mapping(shapes, "input_shapes", "inputs to sizes").items():
        shape = result[name] = read_integers(sizes, f"the shape of input {name!r}")
        if any(size < 0 for size in shape):
            raise UsageError(f"the shape of input {name!r} must not have negative sizes, got {list(shape)}.")
        if any(size > INT64_MAX for size in shape):
            raise UsageError(f"the shape of input {name!r} must have sizes below 2**63, got {list(shape)}.")
    return result


def read_shapes(inputs: Any, input_shapes: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of arrays and other shapes, by input name; see `read_inputs` and `read_input_shapes`."""
    return {name: array.shape for name, array in read_inputs(inputs).items()} | read_input_shapes(input_shapes)


def read_integers(values: Any, name: str) -> tuple[int, ...]:
    """Return a sequence of integers as a tuple of int. Messages refer to the sequence as `name`.

    Raises:
        UsageError: `values` is a str, bytes, a mapping, a set or not iterable, or an element is not an integer.
    """
    rule = f"{name} must be a sequence of integers"
    try:
        if isinstance(values, str | bytes | Mapping | Set):
            raise TypeError
        elements = list(values)
    except TypeError:
        raise UsageError(f"{rule}, got {quote(values)}.") from None
    return tuple([_read_integer(element, rule) for element in elements])


def _read_integer(value: Any, rule: str) -> int:
    try:
        return int(operator.index(value))
    except TypeError:
        raise UsageError(f"{rule}, got {quote(value)}.") from None


def read_inputs(inputs: Any) -> dict[str, npt.NDArray[np.generic]]:
    """Return arrays by input name. Convert objects with `__array__` to NumPy arrays, and None to an empty dict.

    Raises:
        UsageError: `inputs` is neither None nor a mapping from names, or a value is not an array.
    """
    items = read_mapping(inputs, "inputs", "inputs to arrays").items()
    return {name: _read_array(name, array) for name, array in items}


def _read_array(name: str, array: Any) -> npt.NDArray[np.generic]:
    import numpy as np

    if not hasattr(array, "__array__"):
        raise UsageError(f"input {name!r} must be a NumPy array, got {type(array).__name__}; numpy.array makes one.")
    try:
        return np.asarray(array)
    except Exception as error:  # `__array__` of another library may raise anything
        raise UsageError(
            f"input {name!r} cannot be converted to a NumPy array ({shorten(str(error), _MAX_QUOTED).rstrip('.')})."
        ) from None


def load_array(file: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Load the array in a `.npy` file.

    Raises:
        UsageError: The file cannot be read, or is an archive of arrays.
    """
    import numpy as np

    try:
        with open(file, "rb") as opened:
            array = np.load(opened, allow_pickle=False)
    except Exception as error:  # NumPy raises errors of many classes for a damaged file, such as tokenize.TokenError
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"input file '{file}' cannot be read ({reason}).") from None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"input file '{file}' is an archive of arrays, not a .npy file with one array.")
    return array


def read_seed(seed: Any) -> int:
    """Return the seed of random inputs as an int.

    Raises:
        UsageError: `seed` is not an integer, or is negative.
    """
    return _read_natural(seed, "the seed", "an integer")


def read_open_sizes(open_sizes: Any) -> int | None:
    """Return the size of all open axes as an int, or None for "primes".

    Raises:
        UsageError: `open_sizes` is neither "primes" nor an integer, or is negative.
    """
    if isinstance(open_sizes, str) and open_sizes == "primes":
        return None
    return _read_natural(open_sizes, "open_sizes", "'primes' or an integer")


def _read_natural(value: Any, name: str, kinds: str) -> int:
    number = _read_integer(value, f"{name} must be {kinds}")
    if number < 0:
        raise UsageError(f"{name} must not be negative, got {number}.")
    return number


def read_names(names: Any, option: str) -> tuple[str, ...]:
    """Return a sequence of names as a tuple. Messages refer to the sequence as `option`.

    Raises:
        UsageError: `names` is a single str, or not an iterable of str.
    """
    rule = f"{option} must be a sequence of names"
    try:
        if isinstance(names, str | bytes):
            raise TypeError
        elements = tuple(names)
    except TypeError:
        raise UsageError(f"{rule}, got {quote(names)}.") from None
    for name in elements:
        if not isinstance(name, str):
            raise UsageError(f"{rule}, got {quote(name)} in it.")
    return elements


def read_mapping(mapping: Any, option: str, content: str) -> dict[str, Any]:
    """Return a mapping from names as a dict, or an empty dict for None.

    Messages begin with "`option` must map names of `content`". An example of `content` is `inputs to sizes`.

    Raises:
        UsageError: `mapping` is not a mapping, or a name is not a str.
    """
    rule = f"{option} must map names of {content}"
    if not isinstance(mapping, Mapping | None):
        raise UsageError(f"{rule}, got {quote(mapping)}.")
    for name in mapping or ():
        if not isinstance(name, str):
            raise UsageError(f"{rule}, got {quote(name)} as a name.")
    return dict(mapping or {})


def quote(value: Any) -> str:
    """Format a wrong value for a message, cut after 80 characters."""
    return shorten(repr(value), _MAX_QUOTED)

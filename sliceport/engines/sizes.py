"""Sizes for the axes of inputs that a model leaves open."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sliceport.arguments import read_open_sizes
from sliceport.slicing.axis import INT64_MAX

InputShapes = Mapping[str, Sequence[int]]
"""Sizes by input name."""
DeclaredDim = int | str | range | None
"""A size as a model declares it: a number, a symbol, the range of possible numbers, or None for any number."""
DeclaredShapes = Mapping[str, Sequence[DeclaredDim] | None]
"""Declared sizes by input name, in the model's order; None for an input of unknown rank."""
FIRST_LEADING, FIRST_OTHER = 2, 23
"""The first primes for open sizes of axis 0, which is usually the batch, and of all other axes.

Of 24 models with open sizes that were tried, most run with these. Smaller sizes are too small for some convolutions,
and larger ones exceed some tables of positions. As many models run with a small batch as with a large one.
"""


def fill_sizes(declared: DeclaredShapes, given: InputShapes, size: int) -> dict[str, tuple[int, ...]]:
    """Return shapes for the inputs that have open axes, with `size` for each of these axes.

    Inputs in `given` are left out. The size that `given` implies for a symbol also holds in all other inputs. Bounds
    that the model declares for a size are ignored.

    >>> fill_sizes({"x": ("batch", 3), "mask": ("batch", None)}, {"x": (4, 3)}, 1)
    {'mask': (4, 1)}
    """
    sizes: Mapping[Any, int] = _sizes_of_symbols(declared, given)
    return {
        name: tuple(dim if isinstance(dim, int) else sizes.get(dim, size) for dim in shape)
        for name, shape in _open_shapes(declared, given).items()
    }


def shapes_for_open_sizes(declared: DeclaredShapes, given: InputShapes, open_sizes: Any) -> dict[str, tuple[int, ...]]:
    """Return shapes for the inputs that have open axes, by `choose_sizes` for "primes", or else by `fill_sizes`.

    Raises:
        UsageError: `open_sizes` is neither "primes" nor an integer, or is negative.
    """
    size = read_open_sizes(open_sizes)
    return choose_sizes(declared, given) if size is None else fill_sizes(declared, given, size)


def _open_shapes(declared: DeclaredShapes, given: InputShapes) -> dict[str, Sequence[DeclaredDim]]:
    """Return the declared shapes that have an open axis. Leave out inputs in `given`, and inputs of unknown rank."""
    return {
        name: shape
        for name, shape in declared.items()
        if shape is not None and name not in given and not all(isinstance(dim, int) for dim in shape)
    }


def _sizes_of_symbols(declared: DeclaredShapes, given: InputShapes) -> dict[str, int]:
    """Return the sizes that the shapes in `given` imply for symbols of the declared shapes."""
    # Not strict: the lengths differ if the rank of an input is unknown.
    pairs = [pair for name, shape in given.items() for pair in zip(declared.get(name) or (), shape, strict=False)]
    return {dim: size for dim, size in pairs if isinstance(dim, str)}


def choose_sizes(
    declared: DeclaredShapes,
    given: InputShapes = MappingProxyType({}),
    leading: int = FIRST_LEADING,
    other: int = FIRST_OTHER,
) -> dict[str, tuple[int, ...]]:
    """Return shapes for the inputs that have open axes.

    Each symbol gets a prime of its own, so that a model that mixes up axes fails. Each open size without a symbol gets
    another prime. An expression of symbols (`past + 1`) gets its value or, if this is not at least 1, another prime.
    An open size with bounds gets a size within the bounds. Inputs in `given` and inputs of unknown rank are left out.

    Args:
        declared: The shapes that a model declares, by input.
        given: Shapes that the caller has set, by input. A size that they imply for a symbol also holds in other inputs.
        leading: The first prime for open sizes of axis 0, and for symbols whose first occurrence is on axis 0.
        other: The first prime for all other open sizes.

    >>> choose_sizes({"x": ("batch", 3, None), "mask": ("batch", "2*batch + 1"), "y": (4,), "z": None})
    {'x': (2, 3, 23), 'mask': (2, 5)}
    >>> choose_sizes({"x": ("batch", 3), "mask": ("batch", None)}, {"x": (4, 3)})
    {'mask': (4, 23)}
    """
    sizes = _sizes_of_symbols(declared, given)
    taken_primes = set(sizes.values())
    symbols = [dim for shape in declared.values() for dim in shape or () if isinstance(dim, str)]
    plain_symbols = set(filter(str.isidentifier, symbols))
    formulas = {dim: formula for dim in symbols if (formula := _read_formula(dim, plain_symbols)) and dim not in sizes}

    def size_of(dim: DeclaredDim, axis: int) -> int | None:
        """Return the size for a declared dimension; None for a formula. Add the size of a new symbol to `sizes`."""
        first = other if axis else leading
        if isinstance(dim, int):
            return dim
        if not isinstance(dim, str):
            return _take_prime(taken_primes, first, dim)  # `dim` is None or the range of possible sizes
        if dim not in formulas and dim not in sizes:
            sizes[dim] = _take_prime(taken_primes, first)
        return sizes.get(dim)

    # Formulas stay None until all symbols in them have sizes.
    chosen = {
        name: [size_of(dim, axis) for axis, dim in enumerate(shape)]
        for name, shape in _open_shapes(declared, given).items()
    }
    for dim, formula in formulas.items():
        for name in _list_symbols(formula):
            if name not in sizes:
                sizes[name] = _take_prime(taken_primes, other)
        value = _evaluate(formula, sizes)
        sizes[dim] = _take_prime(taken_primes, other) if value is None or value < 1 else value
    return {
        name: tuple(
            sizes[str(dim)] if size is None else size for dim, size in zip(declared[name] or (), shape, strict=True)
        )
        for name, shape in chosen.items()
    }


def choose_symbol_sizes(
    declared: Mapping[str, Sequence[int | str | None] | None],
    fixed_sizes: Mapping[str, int],
    leading: int,
    other: int,
    size: int | None = None,
) -> dict[str, int]:
    """Return a size for each symbol: its size in `fixed_sizes`, or else `size`, or else the choice of `choose_sizes`.

    >>> choose_symbol_sizes({"x": ("batch", "seq", "seq + 1")}, {"seq": 4}, leading=7, other=29)
    {'batch': 7, 'seq': 4, 'seq + 1': 5}
    """
    # One more input has the fixed sizes as its shape, so that formulas of their symbols use them.
    shapes, given = {**declared, "": tuple(fixed_sizes)}, {"": tuple(fixed_sizes.values())}
    chosen = choose_sizes(shapes, given, leading, other) if size is None else fill_sizes(shapes, given, size)
    pairs = [pair for name, sizes in chosen.items() for pair in zip(declared[name] or (), sizes, strict=True)]
    return {symbol: number for symbol, number in pairs if isinstance(symbol, str)} | dict(fixed_sizes)


def evaluate_formula(symbol: str, sizes: Mapping[str, int]) -> int | None:
    """Return the value of a formula such as `past+1`; None for any other text, a missing size or a division by 0.

    >>> evaluate_formula("2*past + 1", {"past": 3})
    7
    """
    formula = _read_formula(symbol, set(sizes))
    return _evaluate(formula, sizes) if formula is not None and set(_list_symbols(formula)) <= sizes.keys() else None


def _take_prime(taken: set[int], first: int, allowed: range | None = None) -> int:
    """Return the least prime that is at least `first` and not in `taken`, and add it to `taken`.

    If `allowed` is None or empty, all numbers are allowed. If `first` is not allowed, the search starts at the least
    allowed number. If the search finds no prime, return the largest allowed number, which may be in `taken`.
    """
    allowed = allowed or range(INT64_MAX)
    start = allowed.index(first) if first in allowed else 0
    for number in allowed[start:]:
        is_prime = number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
        if is_prime and number not in taken:
            taken.add(number)
            return number
    return allowed[-1]


_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_MAX_FORMULA = 200
"""The largest number of characters of a symbol that is parsed; longer symbols are not formulas."""


def _read_formula(text: str, plain_symbols: set[str]) -> ast.Expression | None:
    """Parse a symbol that is a formula; return None for any other text.

    An expression with a number, such as `past+1`, is a formula. An expression of names alone is a formula only if all
    of them are in `plain_symbols`, because the hyphen in `batch-size` may be a part of a name.
    """
    if text.isidentifier() or len(text) > _MAX_FORMULA:
        return None
    try:
        formula = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # also for null characters and deep nesting
        return None
    nodes = list(ast.walk(formula.body))
    if not all(isinstance(node, (ast.BinOp, ast.Name, ast.Load, *_OPERATORS)) or _is_number(node) for node in nodes):
        return None
    return formula if any(map(_is_number, nodes)) or plain_symbols.issuperset(_list_symbols(formula)) else None


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int  # not bool


def _list_symbols(formula: ast.Expression) -> list[str]:
    return [node.id for node in ast.walk(formula) if isinstance(node, ast.Name)]


def _evaluate(formula: ast.Expression, sizes: Mapping[str, int]) -> int | None:
    """Return the value of a formula, or None if it divides by 0."""
    try:
        # `_read_formula` accepts integers, names and operators only.
        value: int = eval(compile(formula, "formula", "eval"), {"__builtins__": {}}, dict(sizes))  # noqa: S307
    except ZeroDivisionError:
        return None
    return value

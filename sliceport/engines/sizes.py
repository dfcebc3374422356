"""Sizes for the axes of inputs that a model leaves open."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count
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
Rule = tuple[int, int, int | None]
"""The numbers `leading`, `other` and `step`; see `choose_sizes`."""
_NONE: Mapping[str, Any] = MappingProxyType({})
_SMALL_PRIMES: Rule = (3, 5, None)
_ONES: Rule = (1, 1, 0)
_ZEROS: Rule = (0, 0, 0)
_PRIMES: Sequence[Rule] = ((FIRST_LEADING, FIRST_OTHER, None), _SMALL_PRIMES)
_PRIMES_OF_ONE: Rule = (1, FIRST_OTHER, None)
_USUAL = ((64, 32), (64, 0), (224, 0), (512, 0), (16000, 0), (640, 0), (1024, 0), (1760, 0), (320, 0), (8, 0))
"""Usual sizes of images, of sound and of text: `other` and `step` of a `Rule`."""
_MAX_RANK = 4
"""The largest rank that is tried for inputs of unknown rank."""
_MAX_RELATIONS = 12
"""Limit for the relations between symbols that are tried, because their number grows with its third power."""


def fill_sizes(declared: DeclaredShapes, given: InputShapes, size: int) -> dict[str, tuple[int, ...]]:
    """Return shapes for the inputs that have open axes, with `size` for each of these axes.

    Inputs in `given` are left out. The size that `given` implies for a symbol also holds in all other inputs. Bounds
    that the model declares for a size are ignored.

    >>> fill_sizes({"x": ("batch", 3), "mask": ("batch", None)}, {"x": (4, 3)}, 1)
    {'mask': (4, 1)}
    """
    sizes: Mapping[Any, int] = sizes_of_symbols(declared, given)
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


def _rank_symbols(declared: DeclaredShapes) -> dict[str, int]:
    """Map each symbol of the declared shapes to the number of axes of the last input that has the symbol."""
    shapes = [shape for shape in declared.values() if shape]
    return {dim: len(shape) for shape in shapes for dim in shape if isinstance(dim, str)}


def sizes_of_symbols(declared: DeclaredShapes, given: InputShapes) -> dict[str, int]:
    """Return the sizes that the shapes in `given` imply for symbols of the declared shapes."""
    # Not strict: the lengths differ if the rank of an input is unknown.
    pairs = [pair for name, shape in given.items() for pair in zip(declared.get(name) or (), shape, strict=False)]
    return {dim: size for dim, size in pairs if isinstance(dim, str)}


def choose_sizes(
    declared: DeclaredShapes, given: InputShapes = _NONE, rule: Rule = _PRIMES[0], fixed: Mapping[str, int] = _NONE
) -> dict[str, tuple[int, ...]]:
    """Return shapes for the inputs that have open axes.

    Each symbol gets a prime of its own, so that a model that mixes up axes fails. Each open size without a symbol gets
    another prime. An expression of symbols (`past + 1`) gets its value or, if this is not at least 1, another prime.
    An open size with bounds gets a size within the bounds. Inputs in `given` and inputs of unknown rank are left out.

    Args:
        declared: The shapes that a model declares, by input.
        given: Shapes that the caller has set, by input. A size that they imply for a symbol also holds in other inputs.
        rule: Three numbers. `leading` is the first prime for open sizes of axis 0, and for symbols whose first
            occurrence is on axis 0. If it is 1 or `step` is given, all these sizes are equal to `leading`. `other` is
            the first prime for all other open sizes. If `step` is not None, these are not primes: they are `other`,
            `other + step`, and so on. The only axis of an input then counts as another axis than axis 0.
        fixed: Sizes of symbols.

    >>> choose_sizes({"x": ("batch", 3, None), "mask": ("batch", "2*batch + 1"), "y": (4,), "z": None})
    {'x': (2, 3, 23), 'mask': (2, 5)}
    >>> choose_sizes({"x": ("batch", 3), "mask": ("batch", None)}, {"x": (4, 3)})
    {'mask': (4, 23)}
    >>> choose_sizes({"x": ("batch", 3, None, None)}, rule=(1, 64, 32))
    {'x': (1, 3, 64, 96)}
    """
    leading, other, step = rule
    sizes = sizes_of_symbols(declared, given) | dict(fixed)
    taken_primes = set(sizes.values())
    steps = count(other, step or 0)
    symbols = [*fixed, *_rank_symbols(declared)]
    plain_symbols = set(filter(str.isidentifier, symbols))
    formulas = {dim: formula for dim in symbols if (formula := _read_formula(dim, plain_symbols)) and dim not in sizes}

    def take(is_leading: bool, allowed: range | None = None) -> int:
        """Return a size that is not taken yet, if possible one of `allowed`."""
        if step is None and not (is_leading and leading == 1):
            return _take_prime(taken_primes, leading if is_leading else other, allowed)
        size = leading if is_leading else next(steps)
        return min(max(size, allowed[0]), allowed[-1]) if allowed else size

    def size_of(dim: DeclaredDim, is_leading: bool) -> int | None:
        """Return the size for a declared dimension; None for a formula. Add the size of a new symbol to `sizes`."""
        if isinstance(dim, int):
            return dim
        if not isinstance(dim, str):
            return take(is_leading, dim)  # `dim` is None or the range of possible sizes
        if dim not in formulas and dim not in sizes:
            sizes[dim] = take(is_leading)
        return sizes.get(dim)

    # Formulas stay None until all symbols in them have sizes.
    chosen = {
        name: [size_of(dim, axis == 0 and (step is None or len(shape) > 1)) for axis, dim in enumerate(shape)]
        for name, shape in _open_shapes(declared, given).items()
    }
    for dim, formula in formulas.items():
        for name in _list_symbols(formula):
            if name not in sizes:
                sizes[name] = take(is_leading=False)
        value = _evaluate(formula, sizes)
        sizes[dim] = take(is_leading=False) if value is None or value < min(1, other) else value
    return {
        name: tuple(
            sizes[str(dim)] if size is None else size for dim, size in zip(declared[name] or (), shape, strict=True)
        )
        for name, shape in chosen.items()
    }


@dataclass(frozen=True)
class SizeChoice:
    """Shapes for the inputs of a model.

    Attributes:
        declared: The declared shapes. An input of unknown rank has a rank here, and a symbol may be a sum of others.
        given: The shapes that the caller has set.
        rule: The rule that chooses all other open sizes.
        fixed: Sizes of symbols that the rule does not choose.
    """

    declared: DeclaredShapes
    given: InputShapes
    rule: Rule
    fixed: Mapping[str, int] = field(default_factory=dict)

    @property
    def chosen(self) -> dict[str, tuple[int, ...]]:
        """The shapes of inputs that have open sizes and are not in `given`."""
        return choose_sizes(self.declared, self.given, self.rule, self.fixed)

    @property
    def shapes(self) -> dict[str, Sequence[int]]:
        """The shapes in `given` and in `chosen`."""
        return {**self.given, **self.chosen}

    def others(self, *, has_empty: bool = False) -> list[SizeChoice]:
        """Return choices with other sizes that the model may run with; with `has_empty`, the last one has sizes of 0.

        If a size is a sum, as the length of a mask that covers a past, one of the choices has a summand of 0.
        """
        if not self.chosen:
            return []
        leading, other, step = self.rule
        primes = [_SMALL_PRIMES if leading > 1 else (1, 5, None), _ONES]
        rules: Sequence[Rule] = primes if step is None else [(leading, 2 * other, step)]
        choices = [replace(self, rule=rule) for rule in rules if self.rule not in (rule, _ONES)]
        ranks = _rank_symbols(self.declared)
        for formula in filter(None, (_read_formula(dim, set(ranks)) for dim in ranks)):
            past = max(_list_symbols(formula), key=lambda name: ranks.get(name, 0), default="")
            choices += [replace(self, fixed={past: 0})] * (past in ranks)
        choices += [replace(self, rule=_ZEROS)] * has_empty
        return [each for i, each in enumerate(choices) if each.shapes not in [one.shapes for one in choices[:i]]]


def sizes_to_try(
    declared: DeclaredShapes, given: InputShapes, list_factors: Callable[[], Sequence[int]] = tuple
) -> Iterator[SizeChoice]:
    """Yield choices of sizes for the axes that inputs leave open, the most telling ones first.

    These are primes; primes with one symbol that is equal to another, or to the sum of two, as the length of a mask in
    a decoder is; multiples of factors, and equal sizes of each factor; usual sizes of images, sound and text; and 1.
    Inputs of unknown rank get 1 to `_MAX_RANK` axes. If no size is open, yield one choice.

    Args:
        declared: The shapes that a model declares, by input.
        given: Shapes that the caller has set, by input.
        list_factors: A function that returns divisors of sizes that the model may need, and sizes that it names. It is
            called only if the model runs with no primes.

    >>> [choice.chosen["x"] for choice in sizes_to_try({"x": ("batch", None)}, {}, lambda: [32])][:6]
    [(2, 23), (3, 5), (1, 23), (2, 64), (1, 64), (2, 32)]
    """
    unknown = [name for name, shape in declared.items() if shape is None and name not in given]
    ranks = range(1, _MAX_RANK + 1) if unknown else [0]
    ranked = [{**declared, **dict.fromkeys(unknown, (None,) * rank)} for rank in ranks]
    sums, equals = _relate_symbols(declared, given)
    with_one = [_PRIMES[0], _PRIMES_OF_ONE]
    rounds: Sequence[tuple[Sequence[Rule], Sequence[DeclaredShapes]]] = (
        (_PRIMES, ranked), (with_one, sums), ([_PRIMES_OF_ONE], ranked), (with_one, equals)
    )  # fmt: skip
    for choice in (SizeChoice(each, given, rule) for primes, shapes in rounds for each in shapes for rule in primes):
        yield choice
        if not choice.chosen:
            return
    steps = [*(step for factor in list_factors() for step in ((2 * factor, factor), (factor, 0))), *_USUAL]
    rules = [*((batch, *step) for step in steps for batch in (FIRST_LEADING, 1)), _ONES]
    yield from (SizeChoice(each, given, rule) for each in ranked for rule in rules)


def _relate_symbols(declared: DeclaredShapes, given: InputShapes) -> tuple[list[DeclaredShapes], list[DeclaredShapes]]:
    """Return the declared shapes with a symbol replaced by a sum of two others, and with one replaced by another.

    Symbols on axis 0, which is usually the batch, and symbols with a given size are left out. The first sums replace
    the last symbol of the inputs with the fewest axes, such as the length of a mask.
    """
    excluded = {shape[0] for shape in declared.values() if shape} | sizes_of_symbols(declared, given).keys()
    ranks = _rank_symbols(declared)
    symbols = [symbol for symbol in ranks if symbol.isidentifier() and symbol not in excluded]
    totals = sorted(symbols, key=lambda symbol: (ranks[symbol], -symbols.index(symbol)))
    sums = [(total, pair) for total in totals for pair in combinations(symbols, 2) if total not in pair]

    def substitute(symbol: str, text: str) -> DeclaredShapes:
        return {name: shape and [text if dim == symbol else dim for dim in shape] for name, shape in declared.items()}

    return (
        [substitute(total, " + ".join(pair)) for total, pair in sums[:_MAX_RELATIONS]],
        [substitute(*pair) for pair in [*combinations(symbols, 2)][:_MAX_RELATIONS]],
    )


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

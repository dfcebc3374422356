"""Differences between two values of a model: by kind, type, shape, NaN, infinity and value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sliceport.engines.engine import Value

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

Kind = Literal["error", "crash", "memory", "missing", "structure", "type", "shape", "nan", "infinity", "values"]


@dataclass(frozen=True)
class Tolerance:
    """The largest difference of two elements that is accepted; one of the three measures suffices.

    Attributes:
        absolute: The difference itself.
        relative: The difference over the largest expected magnitude of the output.
        ulps: The number of floats that lie between the elements, plus 1.
    """

    absolute: float = 0.0
    relative: float = 0.0
    ulps: float = 0.0


EXACT = Tolerance()
_BY_TYPE = {"float64": Tolerance(1e-6, 1e-6), "float32": Tolerance(1e-4, 1e-4), "float16": Tolerance(1e-2, 1e-2)}
_MAX_SAMPLES = 10
_NARROW = Tolerance(1e-1, 1e-1)
"""For bfloat16 and floats of 8 bits or less."""


def tolerance_of(value: Value) -> Tolerance:
    """Return the default tolerance for a computed value by its type; integers, booleans and strings are exact."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return EXACT
    if value.dtype.kind == "c":
        return _BY_TYPE["float64" if value.dtype.itemsize == 16 else "float32"]
    return _BY_TYPE.get(value.dtype.name, _NARROW if "float" in value.dtype.name else EXACT)


def narrow_tolerance_of(value: Value) -> Tolerance:
    """Return the tolerance for a value within a model, where a small difference in small values may grow later."""
    tolerance = tolerance_of(value)
    return Tolerance(tolerance.absolute / 100, tolerance.relative)


def within(tolerance: Tolerance | None) -> Callable[[str, Value], Tolerance]:
    """Return a function that returns a tolerance for any value within a model; without one, that of its type."""
    return lambda _, value: tolerance or narrow_tolerance_of(value)


@dataclass(frozen=True)
class Failure:
    """A failure of a run.

    Attributes:
        kind: `error`, `crash` and `memory` are about the whole run, the others about one output.
        output: The name of the output; empty for a failure of the whole run.
        message: One sentence, or its end.
    """

    kind: Kind
    output: str
    message: str

    @property
    def is_of_run(self) -> bool:
        """Whether the engine did not finish the run."""
        return not self.output

    def is_like(self, other: Failure) -> bool:
        """Return whether another failure has the same cause, as far as kinds and messages show.

        A difference may appear as another kind of difference in the values that it is computed from.
        """
        if self.is_of_run or other.is_of_run:
            return self.kind == other.kind and _signature(self.message) == _signature(other.message)
        return True


def _signature(message: str) -> str:
    """Return a message without what changes when a model is cut: names, numbers and paths."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\S*/\S*", " ", message)
    plain = re.sub(r"(?i)\b(node|name|input|output|initializer)s?:? ?\S+", " ", plain)
    return " ".join(re.sub(r"0x[0-9a-f]+|\d+|[{}\[\],.]", " ", plain).split())[:200]


@dataclass(frozen=True)
class OutputDiff:
    """The comparison of one output.

    Attributes:
        name: Its name.
        element: Its element type.
        shape: Its sizes.
        status: `equal` bit for bit, `close` within the tolerance, or `different`.
        kind: The kind of the difference; empty unless the output is different.
        detail: The first difference, as the end of a sentence, or an empty string.
        tolerance: The accepted difference.
        absolute: The largest difference of finite elements.
        relative: The same over the largest expected magnitude.
        ulps: The largest difference in floats that lie between; None for other types.
        distribution: A line about the differences of all elements, or an empty string.
        samples: The index, the element and the expected one of the first that differ beyond the tolerance, as texts.
    """

    name: str
    element: str = ""
    shape: tuple[int, ...] = ()
    status: Literal["equal", "close", "different"] = "equal"
    kind: Kind | Literal[""] = ""
    detail: str = ""
    tolerance: Tolerance = EXACT
    absolute: float = 0.0
    relative: float = 0.0
    ulps: float | None = None
    distribution: str = ""
    samples: tuple[tuple[str, str, str], ...] = ()

    @property
    def failure(self) -> Failure | None:
        """The failure that this difference is."""
        return Failure(self.kind, self.name, self.detail) if self.kind else None

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values; numbers that JSON lacks as text."""
        data = asdict(self) | {"shape": list(self.shape)}
        return {k: str(v) if isinstance(v, float) and not np.isfinite(v) else v for k, v in data.items()}


def compare_values(name: str, got: Value, expected: Value, tolerance: Tolerance | None) -> OutputDiff:
    """Compare a value with the expected one.

    Args:
        name: Its name.
        got: The value.
        expected: The expected value.
        tolerance: The accepted difference; None for the default of the type.
    """
    if isinstance(got, np.ndarray) and isinstance(expected, np.ndarray):
        return _compare_arrays(name, got, expected, tolerance_of(expected) if tolerance is None else tolerance)
    if isinstance(got, tuple) and isinstance(expected, tuple):
        if len(got) != len(expected):
            return _different(name, "structure", f"it has {len(got)} elements for {len(expected)}")
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            element = compare_values(name, a, b, tolerance)
            if element.status == "different":
                return _different(name, element.kind or "structure", f"in element {i}, {element.detail}")
        return OutputDiff(name, "sequence", (len(got),))
    if got is None and expected is None:
        return OutputDiff(name, "nothing")
    return _different(name, "structure", f"it is {_describe(got)} for {_describe(expected)}")


def compare_outputs(
    got: Mapping[str, Value], expected: Mapping[str, Value], tolerances: Mapping[str, Tolerance | None]
) -> tuple[OutputDiff, ...]:
    """Compare outputs by name; an output that only one side has is different.

    Args:
        got: The outputs.
        expected: The expected outputs.
        tolerances: The accepted difference by output; outputs without an entry have the default of their type.
    """
    return tuple(
        compare_values(name, got[name], expected[name], tolerances.get(name))
        if name in got and name in expected
        else _different(name, "missing", f"only {'one side' if name in got else 'the other side'} has it")
        for name in dict.fromkeys((*expected, *got))
    )


def _different(name: str, kind: Kind, detail: str, **more: Any) -> OutputDiff:
    return OutputDiff(name, status="different", kind=kind, detail=detail, **more)


def _describe(value: Value) -> str:
    return "a tensor" if isinstance(value, np.ndarray) else "a sequence" if isinstance(value, tuple) else "nothing"


def _compare_arrays(name: str, got: Array, expected: Array, tolerance: Tolerance) -> OutputDiff:
    about: dict[str, Any] = {"element": got.dtype.name, "shape": got.shape, "tolerance": tolerance}
    if got.dtype != expected.dtype:
        return _different(name, "type", f"its type is {got.dtype} for {expected.dtype}", **about)
    if got.shape != expected.shape:
        return _different(name, "shape", f"its shape is {list(got.shape)} for {list(expected.shape)}", **about)
    a, b = np.ascontiguousarray(got).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    unequal = a != b if a.dtype == object else (_bytes(a) != _bytes(b)).any(axis=1)
    if not unequal.any():
        return OutputDiff(name, **about)
    if a.dtype == object or not _is_arithmetic(a.dtype):
        return _different(name, "values", **_first(unequal, a, b, got.shape), **about)
    for kind, is_special in (("nan", np.isnan), ("infinity", _signed_infinity)):
        if tolerance != EXACT and a.dtype.kind not in "iu":
            special = is_special(widen(a)) != is_special(widen(b))
            if special.any():
                return _different(name, kind, **_first(special, a, b, got.shape), **about)  # type: ignore[arg-type]
    return _compare_finite(name, a, b, unequal, tolerance, about)


def _compare_finite(
    name: str, got: Array, expected: Array, unequal: Array, tolerance: Tolerance, details: dict[str, Any]
) -> OutputDiff:
    """Compare the finite elements of flat arrays. `unequal` marks the elements that differ."""
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(widen(got)) & np.isfinite(widen(expected))
        error = np.where(finite, np.abs(widen(got) - widen(expected)), 0.0).astype(np.float64)
        largest = float(np.abs(np.where(finite, widen(expected), 0)).max(initial=0.0))
    steps = _ulps(got, expected, finite) if "float" in got.dtype.name else None
    is_wrong = unequal & (error > max(tolerance.absolute, tolerance.relative * largest))
    if tolerance == EXACT:
        is_wrong = unequal
    elif steps is not None and tolerance.ulps:
        is_wrong &= steps > tolerance.ulps
    measures: dict[str, Any] = {
        "absolute": float(error.max(initial=0.0)),
        "relative": float(error.max(initial=0.0)) / (largest or 1.0),
        "ulps": None if steps is None else float(steps.max(initial=0.0)),
    }
    if not is_wrong.any():
        return OutputDiff(name, status="close", **details, **measures)
    quantiles = np.quantile(error, (0.5, 0.9, 0.99))
    distribution = (
        f"{int(unequal.sum())} of {got.size} elements are not equal, {int(is_wrong.sum())} beyond the tolerance; the "
        f"difference is {quantiles[0]:.2g} at the median, {quantiles[1]:.2g} at 90 %, {quantiles[2]:.2g} at 99 % and "
        f"{error.max():.2g} at most, where the largest expected magnitude is {largest:.2g}"
    )
    first = _first(is_wrong, got, expected, details["shape"])
    return _different(name, "values", **first, **details, **measures, distribution=distribution)


def _bytes(flat: Array) -> Array:
    return flat.view(np.uint8).reshape(flat.size, -1) if flat.size else np.zeros((0, 1), np.uint8)


def _is_arithmetic(dtype: np.dtype[Any]) -> bool:
    """Return whether elements can be subtracted; booleans cannot."""
    return dtype.kind in "iufc" or "float" in dtype.name or "int" in dtype.name


def widen(flat: Array) -> Array:
    """Return elements as float64, or complex128 if they are complex."""
    return flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)


def _signed_infinity(wide: Array) -> Array:
    return np.where(np.isinf(wide), np.sign(wide), 0)


def _ulps(a: Array, b: Array, finite: Array) -> Array:
    """Return the number of floats from one element to the other."""

    def position(flat: Array) -> Array:
        bits = flat.dtype.itemsize * 8
        integers = flat.view(f"u{flat.dtype.itemsize}").astype(object if bits == 64 else np.int64)
        half = 1 << (bits - 1)
        return np.where(integers >= half, half - integers, integers)

    steps = np.abs(position(a) - position(b)).astype(np.float64)
    return np.where(finite, steps, 0.0)


def _first(where: Array, a: Array, b: Array, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the `detail` and the `samples` about the elements of a mask."""
    places = np.flatnonzero(where)
    samples = tuple(
        (str([int(i) for i in np.unravel_index(at, shape)]), str(a[at]), str(b[at])) for at in places[:_MAX_SAMPLES]
    )
    index, got, expected = samples[0]
    detail = f"first at index {index}, {got} for {expected} ({len(places)} of {a.size} elements)"
    return {"detail": detail, "samples": samples}


def describe_missing(outputs: Mapping[str, Value], failure: Failure) -> tuple[OutputDiff, ...]:
    """Return the first elements of outputs that the other side did not compute."""
    missing = []
    for name, value in outputs.items():
        if isinstance(value, np.ndarray):
            indices = islice(np.ndindex(value.shape), _MAX_SAMPLES)
            samples = tuple((str(list(index)), "none", str(value[index])) for index in indices)
            about = {"element": value.dtype.name, "shape": value.shape, "samples": samples}
            missing.append(_different(name, failure.kind, failure.message, **about))
    return tuple(missing)

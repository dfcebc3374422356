"""Differences between computed and expected values of a model: in kind, type, shape, NaN, infinity and elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from sliceport.engines.engine import Array, Value
from sliceport.engines.failure import Failure, Kind


@dataclass(frozen=True)
class Tolerance:
    """The largest difference of two elements that is accepted. An element within one of the three bounds is close.

    Attributes:
        absolute: The bound of the difference.
        relative: The bound of the difference as a fraction of the largest finite magnitude of the expected output.
        ulps: The bound of the number of steps, from one float to the next, between the elements.
        share: The largest difference as a fraction of the spread of the expected output, which is its largest element
            minus its smallest. If elements that differ by more are close, the comparison shows nothing. None for no
            such limit, as in a caller's tolerance.
    """

    absolute: float = 0.0
    relative: float = 0.0
    ulps: float = 0.0
    share: float | None = None


EXACT = Tolerance()
Outputs = Mapping[str, Value]
"""The outputs of a run by name."""
ToleranceFor = Callable[[str, Value, Value], Tolerance]
"""Returns the accepted difference of an output from its name, the expected value and the actual value."""
_TOLERANCES = {
    "float64": Tolerance(1e-6, 1e-6, share=0.1),
    "float32": Tolerance(1e-4, 1e-4, share=0.1),
    "float16": Tolerance(1e-2, 1e-2, share=0.1),
}
_NARROW_FLOAT_TOLERANCE = Tolerance(1e-1, 1e-1, share=0.3)
"""For bfloat16 and floats of 8 bits or less."""
_INNER = 100
"""The divisor of the absolute bound for values within a model, and for a part of an output."""
_MAX_SAMPLES = 10
_MIN_SLICE = 16
"""The number of elements from which on those at one index of an axis are judged on their own."""


def tolerance_of(value: Value) -> Tolerance:
    """Return the default tolerance for a computed value by its type: `EXACT` for integers, booleans and strings.

    The tolerance for a sequence is the widest for any of its elements.
    """
    if isinstance(value, tuple):
        return max(map(tolerance_of, value), key=lambda tolerance: tolerance.absolute, default=EXACT)
    if value is None or value.dtype == object:
        return EXACT
    if value.dtype.kind == "c":
        return _TOLERANCES["float64" if value.dtype.itemsize == 16 else "float32"]  # complex128 has 16 bytes
    return _TOLERANCES.get(value.dtype.name, _NARROW_FLOAT_TOLERANCE if "float" in value.dtype.name else EXACT)


def inner_tolerance_of(value: Value) -> Tolerance:
    """Return the default tolerance for a value within a model: `tolerance_of` with a narrower absolute bound."""
    tolerance = tolerance_of(value)
    return Tolerance(tolerance.absolute / _INNER, tolerance.relative)  # later nodes may enlarge a small difference


class Tolerances(dict[str, Tolerance | None]):
    """The accepted differences of outputs by name, and under an empty name of all others; None for the default."""

    def __missing__(self, name: str) -> Tolerance | None:
        return self.get("")

    def narrow(self, output: str) -> Tolerances:
        """Return the tolerance of an output as that of all values that lead to it."""
        return Tolerances({"": self[output]})

    def of_output(self, name: str, expected: Value, _actual: Value = None) -> Tolerance:
        """Return the accepted difference of an output of a model."""
        return self[name] or tolerance_of(expected)

    def of_inner(self, name: str, expected: Value, _actual: Value = None) -> Tolerance:
        """Return the accepted difference of a value within a model."""
        return self[name] or inner_tolerance_of(expected)


def rounding_tolerance_of(expected: Value, actual: Value, fraction: float | None = None) -> Tolerance:
    """Return a tolerance for two values that differ at most by rounding: none unless their types and shapes are equal.

    It is in proportion to the largest finite element that differs, so that no larger element widens it. The default of
    `fraction` is that of the element type.
    """
    if isinstance(expected, tuple) and isinstance(actual, tuple):
        bounds = (rounding_tolerance_of(a, b, fraction) for a, b in zip(expected, actual, strict=False))
        return max(bounds, key=lambda bound: bound.absolute, default=EXACT)
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return EXACT
    tolerance = tolerance_of(expected)
    if tolerance == EXACT or expected.shape != actual.shape or expected.dtype != actual.dtype:
        return EXACT
    a, b = widen(expected), widen(actual)
    is_rounded = (a != b) & np.isfinite(a) & np.isfinite(b)
    return Tolerance((fraction or tolerance.absolute) * float(np.abs(a[is_rounded]).max(initial=0)))


@dataclass(frozen=True)
class OutputDiff:
    """The comparison of one output.

    Attributes:
        name: Its name.
        element: Its element type, `sequence` or `nothing`; empty if the two values are different and not both tensors.
        shape: Its sizes; for a sequence, the number of its elements.
        status: `equal` bit for bit, `close` within the tolerance, `different`, `rounding` if close values decide that
            it is different, or `untested` if the expected values would also accept the output of a wrong model.
        kind: The kind of the difference; empty unless the output is different.
        detail: The first difference, or the reason why the output is untested, as the end of a sentence; otherwise
            empty.
        tolerance: The accepted difference.
        absolute: The largest difference of finite elements; 0 if it was not measured.
        relative: `absolute` divided by the largest finite magnitude of the expected output, or by 1 if that is 0.
        ulps: The largest number of steps, from one float to the next, between an element and the expected element; None
            if it was not measured.
        distribution: A line about the differences of all elements, or an empty string.
        samples: For the first elements that differ beyond the tolerance, the index, the element and the expected
            element as texts.
    """

    name: str
    element: str = ""
    shape: tuple[int, ...] = ()
    status: Literal["equal", "close", "different", "rounding", "untested"] = "equal"
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
        """The difference as a failure; None unless the output is different."""
        return Failure(self.kind, self.name, self.detail) if self.kind else None

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values. NaN and infinities, which JSON lacks, become text."""

        def make_dict(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:  # `asdict` also calls it for `tolerance`
            return {key: str(x) if isinstance(x, float) and not np.isfinite(x) else x for key, x in items}

        return asdict(self, dict_factory=make_dict) | {"shape": list(self.shape)}


def compare_values(name: str, actual: Value, expected: Value, tolerance: Tolerance | None) -> OutputDiff:
    """Compare a computed value with the expected one. A `tolerance` of None stands for the default of the type."""
    if isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray):
        return _compare_arrays(name, actual, expected, tolerance_of(expected) if tolerance is None else tolerance)
    if isinstance(actual, tuple) and isinstance(expected, tuple):
        if len(actual) != len(expected):
            return _differ(OutputDiff(name), "structure", f"it has {len(actual)} elements, expected {len(expected)}")
        elements = [compare_values(name, a, b, tolerance) for a, b in zip(actual, expected, strict=True)]
        # The first element that differs decides, or else the first one that shows nothing, or the first close one.
        ranks = ("different", "untested", "close", "equal")
        worst = min(elements, key=lambda element: ranks.index(element.status), default=OutputDiff(name))
        detail = f"in element {elements.index(worst)}, {worst.detail}" if worst.detail else ""
        absolute = max((element.absolute for element in elements), default=0.0)
        relative = max((element.relative for element in elements), default=0.0)
        about = (worst.status, worst.kind, detail)
        return OutputDiff(name, "sequence", (len(actual),), *about, absolute=absolute, relative=relative)
    if actual is None and expected is None:
        return OutputDiff(name, "nothing")
    return _differ(OutputDiff(name), "structure", f"it is {_name_kind(actual)}, expected {_name_kind(expected)}")


def compare_outputs(actual: Outputs, expected: Outputs, tolerance_for: ToleranceFor) -> tuple[OutputDiff, ...]:
    """Compare outputs by name. An output is different if it is missing in `actual` or `expected`."""
    compared = []
    for name in dict.fromkeys((*expected, *actual)):
        if name in actual and name in expected:
            tolerance = tolerance_for(name, expected[name], actual[name])
            compared.append(compare_values(name, actual[name], expected[name], tolerance))
        else:
            reason = "computed, but not expected" if name in actual else "expected, but not computed"
            compared.append(_differ(OutputDiff(name), "missing", f"it was {reason}"))
    return tuple(compared)


def _differ(output: OutputDiff, kind: Kind, detail: str) -> OutputDiff:
    """Return the comparison of an output with a difference."""
    return replace(output, status="different", kind=kind, detail=detail)


def _differ_at(output: OutputDiff, kind: Kind, mask: Array, actual: Array, expected: Array) -> OutputDiff:
    """Return the comparison of an output with differences in the elements of flat arrays that `mask` marks."""
    positions = np.flatnonzero(mask)
    samples = tuple(
        (
            str([int(i) for i in np.unravel_index(position, output.shape)]),
            str(actual[position]),
            str(expected[position]),
        )
        for position in positions[:_MAX_SAMPLES]
    )
    index, first, right = samples[0]
    detail = f"first at index {index}, computed {first}, expected {right} ({len(positions)} of {mask.size} elements)"
    return replace(_differ(output, kind, detail), samples=samples)


def _name_kind(value: Value) -> str:
    """Name the kind of a value in a message."""
    return "a tensor" if isinstance(value, np.ndarray) else "a sequence" if isinstance(value, tuple) else "nothing"


def _compare_arrays(name: str, actual: Array, expected: Array, tolerance: Tolerance) -> OutputDiff:
    """Compare tensors by type, shape, NaN, infinity and finite elements, in this order.

    If the tolerance is `EXACT`, NaN and infinity are compared like other elements; a difference has the kind `values`.
    """
    output = OutputDiff(name, actual.dtype.name, actual.shape, tolerance=tolerance)
    if actual.dtype != expected.dtype:
        return _differ(output, "type", f"its type is {actual.dtype}, expected {expected.dtype}")
    if actual.shape != expected.shape:
        return _differ(output, "shape", f"its shape is {list(actual.shape)}, expected {list(expected.shape)}")
    a, b = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    if a.dtype == object:
        unequal = a != b
    else:  # one row for the bytes of each element; an empty array gets one row, because `reshape(0, -1)` fails
        unequal = (a.view(np.uint8) != b.view(np.uint8)).reshape(max(a.size, 1), -1).any(axis=1)
    if not unequal.any():
        return output
    # Booleans and strings cannot be subtracted. Numbers of ml_dtypes may have the kind V, so their names are tested.
    if a.dtype.kind not in "iufc" and "float" not in a.dtype.name and "int" not in a.dtype.name:
        return _differ_at(output, "values", unequal, a, b)
    if tolerance != EXACT and a.dtype.kind not in "iu":
        # NaN must be in the same elements of both arrays. So must infinity, with the same sign.
        wide_a, wide_b = widen(a), widen(b)
        masks: dict[Kind, Array] = {
            "nan": np.isnan(wide_a) != np.isnan(wide_b),
            "infinity": (_signs_of_infinity(wide_a) != _signs_of_infinity(wide_b)).any(axis=1),
        }
        for kind, mask in masks.items():
            if mask.any():
                return _differ_at(output, kind, mask, a, b)
    return _compare_finite(output, unequal, a, b)


def _signs_of_infinity(wide: Array) -> Array:
    """Return a row for each element of a non-empty array: 1 or -1 for an infinite real or imaginary part, else 0."""
    parts = wide.view(np.float64).reshape(wide.size, -1)
    return np.where(np.isinf(parts), np.sign(parts), 0)


def _compare_finite(output: OutputDiff, unequal: Array, actual: Array, expected: Array) -> OutputDiff:
    """Compare and measure the finite elements of flat arrays. If the tolerance is `EXACT`, compare all elements.

    `unequal` marks the elements whose bits differ.
    """
    tolerance = output.tolerance
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(widen(actual)) & np.isfinite(widen(expected))
        differences = np.where(finite, np.abs(widen(actual) - widen(expected)), 0.0).astype(np.float64)
        finite_expected = np.where(finite, widen(expected), 0)
        largest = float(np.abs(finite_expected).max(initial=0.0))
    ulps = _count_ulps(actual, expected, finite) if "float" in actual.dtype.name else None
    is_wrong = unequal
    if tolerance != EXACT:  # an element within any one bound is accepted
        is_wrong = unequal & (differences > max(tolerance.absolute, tolerance.relative * largest))
        if ulps is not None and tolerance.ulps:
            is_wrong &= ulps > tolerance.ulps
    absolute, most_ulps = float(differences.max(initial=0.0)), None if ulps is None else float(ulps.max(initial=0.0))
    output = replace(output, absolute=absolute, relative=absolute / (largest or 1.0), ulps=most_ulps)
    if not is_wrong.any():
        vague = _find_vague(differences.reshape(output.shape), finite_expected.reshape(output.shape), tolerance)
        return replace(output, status="untested" if vague else "close", detail=vague)
    quantiles = np.quantile(differences, (0.5, 0.9, 0.99))
    distribution = (
        f"{int(unequal.sum())} of {actual.size} elements are not equal, {int(is_wrong.sum())} beyond the tolerance; "
        f"the difference is {quantiles[0]:.2g} at the median, {quantiles[1]:.2g} at 90 %, {quantiles[2]:.2g} at 99 % "
        f"and {absolute:.2g} at most, where the largest expected magnitude is {largest:.2g}"
    )
    return replace(_differ_at(output, "values", is_wrong, actual, expected), distribution=distribution)


def _find_vague(differences: Array, expected: Array, tolerance: Tolerance) -> str:
    """Return why elements within a tolerance show nothing, because they hardly vary; an empty string if they do.

    Elements along each axis are judged on their own, too, if they are many: class scores beside boxes in pixels, say.
    """
    if tolerance.share is None:
        return ""
    spread = _measure_spread(expected.reshape(1, -1))[0]
    if differences.max() > tolerance.share * spread:
        return f"its elements differ by up to {differences.max():.2g}, and vary by {spread:.2g} only"
    inner_absolute = tolerance.absolute / _INNER
    for axis, size in enumerate(expected.shape):
        if not 1 < size <= expected.size // _MIN_SLICE:
            continue
        spreads = _measure_spread(np.moveaxis(expected, axis, 0).reshape(size, -1))
        largest = np.moveaxis(differences, axis, 0).reshape(size, -1).max(axis=1)
        (vague,) = np.nonzero(largest > np.maximum(tolerance.share * spreads, inner_absolute))
        if vague.size:
            first = int(vague[0])
            where = f"at index {first} of axis {axis}"
            return f"{where} its elements differ by up to {largest[first]:.2g}, and vary by {spreads[first]:.2g} only"
    return ""


def _measure_spread(rows: Array) -> Array:
    """Return the distance from the smallest to the largest element of each row; of a single one, its magnitude."""
    if rows.shape[1] < 2:
        return np.abs(rows).reshape(-1)
    spreads: Array = np.maximum(np.ptp(rows.real, axis=1), np.ptp(rows.imag, axis=1))
    return spreads


def widen(flat: Array) -> Array:
    """Return elements as float64, or complex128 if they are complex. Integers beyond 2**53 are rounded."""
    return flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)


def _count_ulps(a: Array, b: Array, finite: Array) -> Array:
    """Return the number of steps, from one float to the next, between elements of `a` and `b`; 0 if not `finite`."""

    def position_of(flat: Array) -> Array:
        unsigned = np.dtype(f"u{flat.dtype.itemsize}")
        # The bits of 1 and -1 differ in the sign bit alone. In a type of less than 8 bits, this is not the top bit.
        one, minus_one = np.array([1, -1]).astype(flat.dtype).view(unsigned)
        sign_bit = int(minus_one) - int(one)
        # The difference of two 64-bit integers may not fit into int64.
        integers = flat.view(unsigned).astype(object if unsigned.itemsize == 8 else np.int64)
        # A float is a sign bit and a magnitude, so a negative float gets minus the integer of its magnitude.
        return np.where(np.signbit(widen(flat)), sign_bit - integers, integers)

    distances = np.abs(position_of(a) - position_of(b)).astype(np.float64)
    return np.where(finite, distances, 0.0)


def describe_missing(outputs: Outputs, failure: Failure) -> tuple[OutputDiff, ...]:
    """Return a difference for each expected tensor in `outputs`, which a failed run did not compute."""
    missing = []
    for name, value in outputs.items():
        if isinstance(value, np.ndarray):
            indices = islice(np.ndindex(value.shape), _MAX_SAMPLES)
            samples = tuple((str(list(index)), "none", str(value[index])) for index in indices)
            output = OutputDiff(name, value.dtype.name, value.shape, samples=samples)
            missing.append(_differ(output, failure.kind, failure.message))
    return tuple(missing)

"""Outputs that show nothing: empty, NaN, constant, the same for all inputs, or within the tolerance as a whole."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sliceport.verdict.difference import Tolerance, compare_values
from sliceport.verdict.untested import excuse_nan, find_untested

NAN, SAME = float("nan"), "it is the same for all inputs"


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([[]], "it is empty"),
        ([[], []], "it is empty"),
        ([[NAN, NAN]], "all of its elements are NaN"),
        ([[NAN], [NAN]], "all of its elements are NaN"),
        ([[0.0, 0.0]], "all of its elements are 0.0"),
        ([[0.0, -0.0]], "all of its elements are 0.0"),
        ([[0.0, NAN], [0.0, 0.0]], "all of its elements are 0.0"),
        ([[0.5], [0.5]], "all of its elements are 0.5"),
        ([[float("inf")] * 2], "all of its elements are inf"),
        ([[1.0, 2.0], [1.0, 2.0]], SAME),
        ([[1.0, NAN, 2.0], [1.0, NAN, 2.0]], SAME),
        ([[0.0]], "all of its elements are 0.0"),
        ([[-0.0]], "all of its elements are -0.0"),
        ([[NAN]], "all of its elements are NaN"),
        ([[0.5]], ""),
        ([[0.5], [0.6]], ""),
        ([[1.0, 2.0]], ""),
        ([[0.0, 0.0], [0.0, 1.0]], ""),
        ([[NAN, NAN], [1.0, 2.0]], ""),
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], ""),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_reason_names_what_an_output_lacks(runs: list[list[float]], reason: str, dtype: Any) -> None:
    found = find_untested([{"y": np.array(run, dtype)} for run in runs])
    if dtype is np.float32 and reason != "all of its elements are 0.5":
        assert found == ({"y": reason} if reason else {})
    else:
        assert bool(found) == bool(reason)


@pytest.mark.parametrize("values", [[True, True], [3, 3], ["a", "a"]])
def test_booleans_integers_and_strings_may_be_constant(values: list[Any]) -> None:
    array = np.array(values, object if isinstance(values[0], str) else None)
    assert find_untested([{"y": array}])["y"].startswith("all of its elements are ")
    assert not find_untested([{"y": np.array([values[0], np.zeros((), array.dtype)[()]], array.dtype)}])


@pytest.mark.parametrize("value", [False, True, 0, 3, "", "a"])
def test_single_boolean_integer_or_string_shows_something(value: Any) -> None:
    assert not find_untested([{"y": np.array([value], object if isinstance(value, str) else None)}])


def test_sequences_count_by_all_of_their_tensors() -> None:
    one, two = np.ones(2, np.float32), np.arange(2, dtype=np.float32)
    assert find_untested([{"y": (one, one)}]) == {"y": "all of its elements are 1.0"}
    assert not find_untested([{"y": (one, two)}])
    assert find_untested([{"y": (one, two)}, {"y": (one, two)}]) == {"y": SAME}
    assert not find_untested([{"y": (one, two)}, {"y": (one,)}])
    assert find_untested([{"y": None}]) == {"y": "it is empty"}


def test_output_of_shapes_and_constants_shows_everything_at_once() -> None:
    runs = [{"y": np.array([4, 4])}] * 2
    assert not find_untested(runs, {"y"})
    assert find_untested([{"y": np.zeros(0)}], {"y"}) == {"y": "it is empty"}


@pytest.mark.parametrize(
    ("expected", "actual", "status"),
    [
        ([1e-6, 2e-6], [2e-6, 1e-6], "untested"),
        ([1e-6, 2e-6], [1e-6, 2e-6 + 1e-9], "close"),
        ([1e-6, 2e-6], [1e-6, 2e-6], "equal"),
        ([1000.0, 1000.01], [1000.01, 1000.0], "untested"),
        ([0.0, 1.0], [1e-5, 1.0], "close"),
        ([1e-6], [2e-6], "untested"),
        ([0.5], [0.50001], "close"),
        ([0.0, 1.0], [0.1, 1.0], "different"),
    ],
)
def test_tolerance_that_exceeds_the_spread_shows_nothing(expected: Any, actual: Any, status: str) -> None:
    computed, right = (np.array(values, np.float32) for values in (actual, expected))
    assert compare_values("y", computed, right, None).status == status


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("scale", "status"), [(1e-9, "close"), (1e-5, "untested"), (1.0, "different")])
def test_elements_of_another_magnitude_along_an_axis_are_judged_on_their_own(
    axis: int, scale: float, status: str
) -> None:
    """As in an output of boxes in pixels and scores of classes."""
    expected = np.random.default_rng(0).normal(size=(3, 8, 16))
    large = np.moveaxis(expected, axis, 0)
    large[:2] *= 640
    large[2] *= scale
    actual = expected.copy()
    np.moveaxis(actual, axis, 0)[2] *= -1
    output = compare_values("y", actual.astype(np.float32), expected.astype(np.float32), None)
    assert output.status == status
    assert (f"at index 2 of axis {axis} its elements differ by up to " in output.detail) is (status == "untested")


def test_rounding_along_an_axis_is_close() -> None:
    expected = np.random.default_rng(0).normal(size=(4, 64, 32)).astype(np.float32) * np.float32(100)
    actual = (expected.astype(np.float64) * (1 + 1e-6)).astype(np.float32)
    assert compare_values("y", actual, expected, None).status == "close"
    expected[:, 3], actual[:, 3] = 0, 1e-7  # a channel of padding
    assert compare_values("y", actual, expected, None).status == "close"


def test_sequence_shows_what_its_elements_show() -> None:
    small, other = np.array([1e-7, 2e-7], np.float32), np.array([2e-7, 1e-7], np.float32)
    unit = np.array([0, 1], np.float32)
    for elements, status in (((small, unit), "untested"), ((unit, unit + 2e-5), "close"), ((unit, unit), "equal")):
        expected = (elements[0], unit)
        actual = (other if elements[0] is small else elements[0], elements[1])
        output = compare_values("y", actual, expected, None)
        assert (output.status, output.kind) == (status, "")
        assert output.detail.startswith("in element 0, its elements differ") is (status == "untested")
        assert (output.absolute > 0) is (status != "equal")
    assert compare_values("y", (), (), None).status == "equal"
    output = compare_values("y", (small, unit), (small, unit + 1), None)
    assert output.kind == "values"
    assert output.detail.startswith("in element 1, first at index [0]")


def test_tolerance_of_the_caller_decides_alone() -> None:
    small, other = np.array([1e-6, 2e-6], np.float32), np.array([2e-6, 1e-6], np.float32)
    assert compare_values("y", other, small, Tolerance(absolute=1e-4)).status == "close"


@pytest.mark.parametrize(
    ("expected", "actual", "status"),
    [([NAN, NAN], [1.0, 2.0], "untested"), ([NAN, 1.0], [1.0, 1.0], "different"), ([NAN], [NAN, NAN], "different")],
)
def test_number_in_place_of_nothing_but_nan_shows_nothing(expected: Any, actual: Any, status: str) -> None:
    computed, right = (np.array(values, np.float32) for values in (actual, expected))
    (output,) = excuse_nan([compare_values("y", computed, right, None)], {"y": right})
    assert (output.status, bool(output.kind)) == (status, status == "different")

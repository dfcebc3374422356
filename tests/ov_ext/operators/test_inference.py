"""Bounds of sliced sizes: exact, by brute force over every size and index that they allow."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import openvino as ov
import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st
from openvino import opset8
from openvino_models import constant, make, parameter

from ov_ext.defects.checking import check
from ov_ext.operators.inference import ANY_INDEX, Bounds, check_shrunk_index, sliced_size
from ov_ext.operators.static_values import as_indices, list_bounds, read_integers, to_index_list
from sliceport.errors import InvalidSlice
from sliceport.slicing.axis import INT64_MAX, INT64_MIN, resolve_axis

STEPS = (-3, -2, -1, 1, 2, 3)


def between(bounds: Bounds | None) -> Sequence[int | None]:
    return [None] if bounds is None else range(bounds.low, bounds.high + 1)


def brute_force(axis: Bounds, start: Bounds | None, stop: Bounds | None, step: int) -> tuple[Bounds, bool]:
    pairs = [
        (size, len(resolve_axis(first, end, step, size)))
        for size in range(axis.low, axis.high + 1)
        for first in between(start)
        for end in between(stop)
    ]
    sizes = [kept for _, kept in pairs]
    return Bounds(min(sizes), max(sizes)), all(size == kept for size, kept in pairs)


def intervals(low: int, high: int) -> list[Bounds]:
    return [Bounds(a, b) for a in range(low, high + 1) for b in range(a, high + 1)]


@pytest.mark.parametrize("step", STEPS)
def test_short_axes_with_constant_starts_and_stops_are_as_by_brute_force(step: int) -> None:
    indices = [None, *(Bounds(i, i) for i in range(-6, 7))]
    for axis, start, stop in itertools.product(intervals(0, 4), indices, indices):
        assert sliced_size(axis, start, stop, step) == brute_force(axis, start, stop, step)


@pytest.mark.parametrize("step", [-2, -1, 1, 2])
def test_short_axes_with_starts_and_stops_in_intervals_are_as_by_brute_force(step: int) -> None:
    indices = [None, *intervals(-4, 4)]
    axes = [Bounds(0, 3), Bounds(1, 2), Bounds(2, 3), Bounds(3, 3)]
    for axis, start, stop in itertools.product(axes, indices, indices):
        assert sliced_size(axis, start, stop, step) == brute_force(axis, start, stop, step)


@settings(max_examples=amount(250))
@given(st.integers(0, 9), st.integers(-12, 12) | st.none(), st.integers(-12, 12) | st.none(), st.sampled_from(STEPS))
def test_axis_without_an_upper_bound_has_exact_bounds(low: int, first: int | None, end: int | None, step: int) -> None:
    """Beyond every index the size is either constant or grows without a bound."""
    start, stop = (None if index is None else Bounds(index, index) for index in (first, end))
    found, keeps_size = sliced_size(Bounds(low, INT64_MAX), start, stop, step)
    near, near_keeps = brute_force(Bounds(low, 60), start, stop, step)
    far, _ = brute_force(Bounds(low, 90), start, stop, step)
    assert found.low == near.low
    assert found.high == (INT64_MAX if far.high > near.high else near.high)
    assert keeps_size == near_keeps


def test_unknown_indices_give_the_widest_bounds() -> None:
    any_axis = Bounds(0, INT64_MAX)
    assert sliced_size(Bounds(2, 5), ANY_INDEX, ANY_INDEX, 2).bounds == Bounds(0, 3)
    assert sliced_size(Bounds(2, 5), None, ANY_INDEX, -2).bounds == Bounds(0, 3)
    assert sliced_size(any_axis, ANY_INDEX, ANY_INDEX, 1) == (Bounds(0, INT64_MAX), False)
    assert sliced_size(Bounds(2, 5), Bounds(1, 1), Bounds(2, 2), None).bounds == Bounds(0, 5)
    assert sliced_size(Bounds(0, 0), ANY_INDEX, ANY_INDEX, None) == (Bounds(0, 0), True)


def test_far_indices_keep_the_size() -> None:
    axis = Bounds(3, INT64_MAX)
    far, before = Bounds(INT64_MAX, INT64_MAX), Bounds(INT64_MIN, INT64_MIN)
    assert sliced_size(axis, Bounds(0, 0), far, 1) == (axis, True)
    assert sliced_size(axis, before, far, 1) == (axis, True)
    assert sliced_size(axis, far, before, -1) == (axis, True)
    assert sliced_size(axis, Bounds(1, 1), far, 1) == (Bounds(2, INT64_MAX), False)
    assert sliced_size(axis, Bounds(-7, -7), far, 1).bounds == Bounds(3, 7)


@pytest.mark.parametrize("step", [INT64_MAX, INT64_MIN, 2**61, -(2**61)])
def test_steps_longer_than_most_axes_have_exact_bounds(step: int) -> None:
    any_axis, three = Bounds(0, INT64_MAX), Bounds(3, 3)
    assert sliced_size(any_axis, three, three, step).bounds == Bounds(0, 0)
    assert sliced_size(any_axis, None, None, step).bounds == Bounds(0, -(-INT64_MAX // abs(step)))
    assert sliced_size(Bounds(1, INT64_MAX), None, three, step).bounds.low == (1 if step > 0 else 0)


def test_step_of_zero_is_refused() -> None:
    with pytest.raises(InvalidSlice, match="step must not be 0"):
        sliced_size(Bounds(2, 3), None, None, 0)


def test_shrunk_index_is_refused_exactly_if_no_size_and_index_fit() -> None:
    for size, index in itertools.product(intervals(0, 4), [*intervals(-6, 6), ANY_INDEX]):
        pairs = itertools.product(range(size.low, size.high + 1), range(max(index.low, -9), min(index.high, 9) + 1))
        if any(-length <= at < length for length, at in pairs):
            check_shrunk_index(0, 0, size, index)
        else:
            with pytest.raises(InvalidSlice, match="entry 0 shrinks axis 0 to "):
                check_shrunk_index(0, 0, size, index)


def test_index_that_depends_on_data_is_not_traced_through_the_network() -> None:
    """Otherwise each such index would take as long as the network has nodes."""
    calls = []
    for layers in (2, 100):
        data = layer = parameter([4])
        for _ in range(layers):
            layer = opset8.add(opset8.relu(data), layer)
        index = opset8.convert(opset8.reduce_max(layer, constant([0]), True), "i64")
        calls.append(count_calls(lambda source: list_bounds(source) is None, index.output(0)))
    assert calls[0] == calls[1]


@pytest.mark.parametrize("op", ["Slice", "VariadicSplit"])
def test_check_traces_no_index_through_the_layers_before_it(op: str) -> None:
    """Each further layer takes as many calls as each layer before it. The first run fills caches."""
    calls = []
    for layers in (60, 20, 40, 60):
        source = layer = parameter([6], "i64")
        results = []
        for _ in range(layers):
            layer = opset8.relu(layer)
            index = opset8.reduce_max(layer, constant([0]), True)
            further = [constant([0]), index, constant([1]), constant([0])] if op == "Slice" else [constant([0]), index]
            results.append(make(op, [layer, *further], ours=False).output(0))
        calls.append(count_calls(check, ov.Model(results, [source], "m"), {}))
    assert calls[3] - calls[2] == calls[2] - calls[1]


def count_calls(function: Callable[..., Any], *arguments: Any) -> int:
    """Return the number of calls in a call of a function, which must return something true."""
    calls: list[str] = []
    sys.setprofile(lambda _frame, event, _argument: calls.append(event))
    try:
        assert function(*arguments)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_constant_of_indices_keeps_the_ends_of_32_bits() -> None:
    values = [2**31 - 1, -(2**31), INT64_MAX, 7]
    assert to_index_list(read_integers(as_indices(values))) == values

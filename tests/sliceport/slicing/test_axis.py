"""One axis, exhaustively: every bound and step on every small size, against the oracle."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import kept_indices
from slicing_cases import small_ranges

from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX, INT64_MIN, as_slice, coalesce, compose, merge, resolve_axis, window

SIZES = range(7)
BOUNDS = (None, *range(-9, 10), INT64_MAX, INT64_MIN, INT64_MIN + 1, 2**31 - 1, -(2**31), 2**80, -(2**80))
STEPS = (1, 2, 3, 4, -1, -2, -3, -4, INT64_MAX, INT64_MIN, 2**80)
FAR = st.integers(-(2**80), 2**80)


def test_sentinels_are_the_ends_of_int64() -> None:
    """Check that the sentinels for "as far as possible" fit int64, and no greater numbers do."""
    assert (INT64_MIN.to_bytes(8, "little", signed=True), INT64_MAX.to_bytes(8, "little", signed=True)) == (
        b"\0" * 7 + b"\x80",
        b"\xff" * 7 + b"\x7f",
    )


def test_every_bound_and_step_selects_what_the_oracle_selects() -> None:
    for size, start, stop, step in itertools.product(SIZES, BOUNDS, BOUNDS, STEPS):
        assert list(resolve_axis(start, stop, step, size)) == kept_indices(start, stop, step, size)


def test_equal_selections_are_one_range() -> None:
    for size in SIZES:
        spellings: dict[tuple[int, ...], str] = {}
        for start, stop, step in itertools.product(BOUNDS, BOUNDS, STEPS):
            kept = resolve_axis(start, stop, step, size)
            assert spellings.setdefault(tuple(kept), repr(kept)) == repr(kept)
            assert all(0 <= i < size for i in kept)


def test_a_step_of_0_is_refused() -> None:
    with pytest.raises(InvalidSlice, match="step must not be 0"):
        resolve_axis(0, 1, 0, 3)


def test_every_pair_composes() -> None:
    for size in range(6):
        for outer in small_ranges(size):
            for inner in small_ranges(len(outer)):
                assert list(compose(outer, inner)) == [list(outer)[i] for i in inner]


@pytest.mark.parametrize("step", [-3, 1, 7])
def test_the_window_of_one_element_has_no_steps(step: int) -> None:
    assert window(range(5, 5 + step, step)) == (5, 1, 1)


def test_windows_are_tight_and_walk_the_indices() -> None:
    for size in SIZES:
        for kept in small_ranges(size):
            if kept:
                offset, extent, stride = window(kept)
                first = offset if stride > 0 else offset + extent - 1
                assert [first + stride * i for i in range(len(kept))] == list(kept)
                assert {offset, offset + extent - 1} == {min(kept), max(kept)}


def test_as_slice_selects_the_same() -> None:
    for size in SIZES:
        for kept in small_ranges(size):
            assert list(range(size))[as_slice(kept)] == list(kept)
    for empty in (range(3, -1), range(0, -5, 2), range(-1, -1, -1), range(1, 4, -1)):
        assert not range(5)[as_slice(empty)]


def test_pairs_merge_exactly_when_the_joint_indices_are_a_progression() -> None:
    for outer_size, inner_size in itertools.product(range(1, 6), repeat=2):
        for outer, inner in itertools.product(small_ranges(outer_size), small_ranges(inner_size)):
            if not outer or not inner:
                continue
            joint = [o * inner_size + i for o in outer for i in inner]
            differences = {b - a for a, b in itertools.pairwise(joint)}
            merged = merge(outer, inner, inner_size)
            assert (merged is not None) == (len(differences) <= 1)
            if merged is not None:
                assert list(merged) == joint


def test_coalesce_does_not_join_what_is_not_contiguous() -> None:
    kept = (range(2), range(3))
    assert coalesce((2, 3), kept)[0] == [6]
    assert coalesce((2, 3), kept, [False]) == ([2, 3], list(kept), [0, 1])


def test_axes_are_as_long_as_64_bits_allow() -> None:
    assert resolve_axis(-1, None, 1, INT64_MAX) == range(INT64_MAX - 1, INT64_MAX)
    with pytest.raises(InvalidSlice, match=r"at most 2\^63 - 1 elements, got 9223372036854775808"):
        resolve_axis(0, 1, 1, INT64_MAX + 1)


@given(st.integers(0, 2**62), FAR, FAR, FAR.filter(bool))
def test_sizes_and_bounds_beyond_64_bits_are_clamped(size: int, start: int, stop: int, step: int) -> None:
    """Check that the ends and the count by the specification's clamping, worked out without walking the axis."""
    kept = resolve_axis(start, stop, step, size)
    high = size if step > 0 else size - 1
    first = max(min(start + size if start < 0 else start, high), 0)
    last = max(min(stop + size if stop < 0 else stop, high), 0 if step > 0 else -1)
    span = last - first if step > 0 else first - last
    count = max(0, -(-span // abs(step))) if size else 0
    assert len(kept) == count
    if count:
        assert (kept[0], kept[-1]) == (first, first + (count - 1) * step)

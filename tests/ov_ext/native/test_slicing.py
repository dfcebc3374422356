"""The arithmetic in C++ says what that in Python says: of every small axis, and of many others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import FAR, shapes

from ov_ext.inference import Bounds, sliced_size
from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX, INT64_MIN, Masks, Region, SliceSpec, StridedSliceSpec, merge, resolve_axis

Ask = Callable[..., str]
UINT64_MAX = 2**64 - 1
KINDS = ("slice", "shrink", "new", "keep")
EDGES = (INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX, 2**31, -(2**31))


def range_words(selected: range) -> list[int]:
    return [selected.start, len(selected), selected.step]


def list_words(values: Sequence[int] | None) -> list[Any]:
    return ["none"] if values is None else [len(values), *values]


def bounds_words(bounds: Bounds | None) -> list[Any]:
    return ["none"] if bounds is None else [*bounds]


def mask_words(masks: Masks) -> list[int]:
    return [word for mask in masks.attributes.values() for word in list_words(mask)]


def or_none(index: int | None) -> Any:
    return "none" if index is None else index


def region_answer(region: Region) -> str:
    def words(of: Region) -> str:
        ranges = [word for selected in of.ranges for word in range_words(selected)]
        return "; ".join("".join(f"{word} " for word in part) for part in (of.input_shape, ranges, of.output_shape))

    return words(region) if region.is_empty else f"{words(region)}; {words(region.coalesce())}"


def answer_of(resolve: Callable[[], Region], answer: str) -> tuple[str, str]:
    """What is expected, and the answer; ranges of what is empty are not looked at, as nobody does."""
    try:
        region = resolve()
    except InvalidSlice as error:
        return f"InvalidSlice: {error}", answer
    if region.is_empty:
        shape, _, output = answer.split("; ")
        return region_answer(region), f"{shape}; {'0 0 1 ' * len(region.ranges)}; {output}"
    return region_answer(region), answer


def test_every_slice_of_every_short_axis(ask: Ask) -> None:
    indices = (None, *range(-8, 9), *EDGES)
    steps = (*range(-7, 0), *range(1, 8), INT64_MIN, INT64_MAX)
    for size, start, stop in itertools.product(range(7), indices, indices):
        for step in steps if start in (None, 0, -1, 3) else (-2, -1, 1, 3):
            expected = " ".join(map(str, range_words(resolve_axis(start, stop, step, size)))) + " "
            assert ask("resolve_axis", or_none(start), or_none(stop), step, size) == expected


ANY = st.integers(-20, 20) | st.sampled_from(EDGES) | st.integers(INT64_MIN, INT64_MAX)


@settings(max_examples=1000)
@given(
    st.none() | ANY, st.none() | ANY, ANY.filter(bool), st.integers(0, 20) | st.sampled_from((INT64_MAX, INT64_MAX - 1))
)
def test_any_slice_of_any_axis(ask: Ask, start: int | None, stop: int | None, step: int, size: int) -> None:
    expected = " ".join(map(str, range_words(resolve_axis(start, stop, step, size)))) + " "
    assert ask("resolve_axis", or_none(start), or_none(stop), step, size) == expected


def test_a_step_of_zero(ask: Ask) -> None:
    assert ask("resolve_axis", 0, 1, 0, 4) == "InvalidSlice: step must not be 0"


def test_every_merge_of_short_axes(ask: Ask) -> None:
    def selections(size: int) -> set[range]:
        indices = range(-1, size + 1)
        found = {resolve_axis(a, b, s, size) for a in indices for b in (None, *indices) for s in (-3, -2, -1, 1, 2, 3)}
        return {selected for selected in found if selected}

    for outer_size, inner_size in itertools.product(range(1, 5), range(1, 5)):
        for outer, inner in itertools.product(selections(outer_size), selections(inner_size)):
            both = merge(outer, inner, inner_size)
            expected = "none" if both is None else " ".join(map(str, range_words(both))) + " "
            assert ask("merge", *range_words(outer), *range_words(inner), inner_size) == expected


def test_every_pair_of_masked_entries(ask: Ask) -> None:
    masks = [Masks(*[bits[i : i + 2] for i in (0, 0, 0, 2, 4)]) for bits in itertools.product((0, 1), repeat=6)]
    for mask, count, rank in itertools.product(masks, range(4), range(4)):
        try:
            entries = mask.entries(count, rank)
            expected = "".join(f"{KINDS.index(entry.kind)} {entry.position} {entry.axis} " for entry in entries)
        except InvalidSlice as error:
            expected = f"InvalidSlice: {error}"
        assert ask("entries", *mask_words(mask), count, rank) == expected


def integers(near: int = 8) -> st.SearchStrategy[int]:
    return st.one_of(
        st.integers(-near, near), st.integers(-near, near), st.sampled_from(FAR), st.sampled_from((2**63, UINT64_MAX))
    )


@st.composite
def lists(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    length = draw(st.sampled_from((count, count, count, count, count + 1)))
    return tuple(draw(st.lists(integers(), min_size=length, max_size=length)))


@st.composite
def slice_specs(draw: st.DrawFn, rank: int) -> SliceSpec:
    """Specs of which many break a rule."""
    count = draw(st.integers(0, rank + 1))
    axes = st.lists(st.integers(-rank - 1, rank), min_size=count, max_size=count).map(tuple)
    return SliceSpec(draw(lists(count)), draw(lists(count)), draw(st.none() | lists(count) | axes), draw(lists(count)))


@st.composite
def strided_slice_specs(draw: st.DrawFn, rank: int) -> StridedSliceSpec:
    """Specs of which many break a rule."""
    count = draw(st.integers(0, rank + 2))
    bits = st.sampled_from((0, 0, 0, 0, 0, 0, 1, 1, 1, 2))
    masks = Masks(*[tuple(draw(st.lists(bits, max_size=count + 1))) for _ in range(5)])
    return StridedSliceSpec(draw(lists(count)), draw(lists(count)), draw(st.none() | lists(count)), masks)


@settings(max_examples=1500)
@given(st.data())
def test_any_slice(ask: Ask, data: st.DataObject) -> None:
    shape = data.draw(shapes(max_rank=5, min_rank=0, max_size=5))
    spec = data.draw(slice_specs(len(shape)))
    assert spec.steps is not None
    answer = ask(
        "slice",
        *list_words(shape),
        *list_words(spec.starts),
        *list_words(spec.ends),
        *list_words(spec.steps),
        *list_words(spec.axes),
    )
    expected, answer = answer_of(lambda: spec.resolve(shape), answer)
    assert answer == expected


@settings(max_examples=1500)
@given(st.data())
def test_any_strided_slice(ask: Ask, data: st.DataObject) -> None:
    shape = data.draw(shapes(max_rank=5, min_rank=0, max_size=5))
    spec = data.draw(strided_slice_specs(len(shape)))
    lists_of = [word for values in (spec.begin, spec.end, spec.strides) for word in list_words(values)]
    answer = ask("strided_slice", *list_words(shape), *lists_of, *mask_words(spec.masks))
    expected, answer = answer_of(lambda: spec.resolve(shape), answer)
    assert answer == expected


@settings(max_examples=300)
@given(st.data())
def test_more_axes_than_are_kept_in_place(ask: Ask, data: st.DataObject) -> None:
    shape = data.draw(shapes(max_rank=20, min_rank=7, min_size=1, max_size=3).filter(lambda shape: prod(shape) < 2**40))
    count = len(shape)
    begin, end = (tuple(data.draw(st.lists(st.integers(-3, 3), min_size=count, max_size=count))) for _ in range(2))
    steps = tuple(data.draw(st.lists(st.sampled_from((-2, -1, 1, 1, 1)), min_size=count, max_size=count)))
    words = [word for values in (shape, begin, end, steps) for word in list_words(values)]
    expected, answer = answer_of(
        lambda: SliceSpec(begin, end, None, steps).resolve(shape), ask("slice", *words, *list_words(None))
    )
    assert answer == expected


def assert_same_size(
    ask: Ask, axis: Bounds, start: Bounds | None, stop: Bounds | None, step: int | None, asked: str | None = None
) -> None:
    found = sliced_size(axis, start, stop, step)
    words = [*axis, *bounds_words(start), *bounds_words(stop), or_none(step)]
    assert ask("sliced_size", *words) == f"{found.bounds.low} {found.bounds.high} {int(found.keeps_size)}"


def intervals(low: int, high: int) -> list[Bounds]:
    return [Bounds(a, b) for a in range(low, high + 1) for b in range(a, high + 1)]


@pytest.mark.parametrize("step", [None, -3, -1, 1, 2])
def test_bounds_of_every_short_axis(ask: Ask, step: int | None) -> None:
    indices = [None, *intervals(-3, 3), Bounds(INT64_MIN, INT64_MAX)]
    axes = [*intervals(0, 3), Bounds(0, INT64_MAX), Bounds(2, INT64_MAX)]
    for axis, start, stop in itertools.product(axes, indices, indices):
        assert_same_size(ask, axis, start, stop, step)


@st.composite
def any_bounds(draw: st.DrawFn, values: st.SearchStrategy[int]) -> Bounds:
    first, second = draw(values), draw(values)
    return Bounds(min(first, second), max(first, second))


SIZES = st.one_of(st.integers(0, 30), st.sampled_from((INT64_MAX, INT64_MAX - 1, 2**31)))


@settings(max_examples=1500)
@given(
    any_bounds(SIZES),
    st.none() | any_bounds(ANY | st.sampled_from((2**63, UINT64_MAX))),
    st.none() | any_bounds(ANY | st.sampled_from((2**63, UINT64_MAX))),
    st.none() | (ANY | st.sampled_from((2**63, UINT64_MAX))).filter(bool),
)
def test_any_bounds(ask: Ask, axis: Bounds, start: Bounds | None, stop: Bounds | None, step: int | None) -> None:
    assert_same_size(ask, axis, start, stop, step)

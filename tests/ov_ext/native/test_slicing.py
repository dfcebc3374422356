"""The arithmetic in C++ says what that in Python says: of every small axis, and of many others."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from strategies import FAR

from ov_ext.inference import Bounds, check_shrunk_index, sliced_size
from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX, INT64_MIN, Masks, Region, SliceSpec, StridedSliceSpec, merge, resolve_axis

Ask = Callable[..., str]
UINT64_MAX = 2**64 - 1
KINDS = ("slice", "shrink", "new", "keep")
EDGES = (INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX, 2**31, -(2**31))
COUNT = 5000
"""Of random cases, which take an eighth of the time of as many that hypothesis draws."""


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


def any_integer(pick: random.Random) -> int:
    """Near 0, at an edge, or of any length."""
    how = pick.random()
    if how < 0.5:
        return pick.randint(-20, 20)
    return pick.choice(EDGES) if how < 0.75 else pick.randint(INT64_MIN, INT64_MAX) >> pick.randrange(64)


def any_step(pick: random.Random) -> int:
    return any_integer(pick) or 1


def test_any_slice_of_any_axis(ask: Ask) -> None:
    pick = random.Random("any axis")
    for _ in range(COUNT):
        start, stop = (None if pick.random() < 0.1 else any_integer(pick) for _ in range(2))
        size = pick.randint(0, 20) if pick.random() < 0.7 else pick.choice((INT64_MAX, INT64_MAX - 1))
        words = (or_none(start), or_none(stop), step := any_step(pick), size)
        expected = " ".join(map(str, range_words(resolve_axis(start, stop, step, size)))) + " "
        assert ask("resolve_axis", *words) == expected, words


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


def index(pick: random.Random) -> int:
    return pick.randint(-8, 8) if pick.random() < 0.8 else pick.choice((*FAR, 2**63, UINT64_MAX))


def indices(pick: random.Random, count: int) -> tuple[int, ...]:
    """As many indices, or now and then one too many."""
    return tuple(index(pick) for _ in range(count + (pick.random() < 0.1)))


def any_shape(pick: random.Random) -> tuple[int, ...]:
    low = int(pick.random() < 0.7)  # else most of what has many axes is empty
    return tuple(pick.randint(low, 5) for _ in range(pick.randint(0, 5)))


def any_slice_spec(pick: random.Random, rank: int) -> SliceSpec:
    """A spec that may break a rule."""
    count = pick.randint(0, rank + (pick.random() < 0.2))
    axes: tuple[int, ...] | None = None
    how = pick.random()
    if how < 0.5:
        axes = tuple(axis - rank * pick.randrange(2) for axis in pick.sample(range(max(rank, count)), count))
    elif how < 0.7:
        axes = tuple(pick.randint(-rank - 1, rank) for _ in range(count))
    elif how < 0.8:
        axes = indices(pick, count)
    return SliceSpec(indices(pick, count), indices(pick, count), axes, indices(pick, count))


def any_strided_slice_spec(pick: random.Random, rank: int) -> StridedSliceSpec:
    """A spec that may break a rule."""
    count = pick.randint(0, rank + 2)
    masks = Masks(
        *[tuple(pick.choices((0, 1, 2), (60, 20, 1))[0] for _ in range(pick.randint(0, count + 1))) for _ in range(3)],
        *[tuple(pick.choices((0, 1, 2), (60, 9, 1))[0] for _ in range(pick.randint(0, count + 1))) for _ in range(2)],
    )
    strides = None if pick.random() < 0.3 else indices(pick, count)
    return StridedSliceSpec(indices(pick, count), indices(pick, count), strides, masks)


def test_any_slice(ask: Ask) -> None:
    pick = random.Random("slice")
    right = 0
    for _ in range(COUNT):
        shape = any_shape(pick)
        spec = any_slice_spec(pick, len(shape))
        assert spec.steps is not None
        answer = ask(
            "slice",
            *list_words(shape),
            *list_words(spec.starts),
            *list_words(spec.ends),
            *list_words(spec.steps),
            *list_words(spec.axes),
        )
        expected, answer = answer_of(functools.partial(spec.resolve, shape), answer)
        assert answer == expected, (shape, spec)
        right += not expected.startswith("InvalidSlice")
    assert COUNT // 4 < right < COUNT * 3 // 4


def test_any_strided_slice(ask: Ask) -> None:
    pick = random.Random("strided slice")
    right = 0
    for _ in range(COUNT):
        shape = any_shape(pick)
        spec = any_strided_slice_spec(pick, len(shape))
        lists_of = [word for values in (spec.begin, spec.end, spec.strides) for word in list_words(values)]
        answer = ask("strided_slice", *list_words(shape), *lists_of, *mask_words(spec.masks))
        expected, answer = answer_of(functools.partial(spec.resolve, shape), answer)
        assert answer == expected, (shape, spec)
        right += not expected.startswith("InvalidSlice")
    assert COUNT // 5 < right < COUNT * 3 // 4


def test_more_axes_than_are_kept_in_place(ask: Ask) -> None:
    pick = random.Random("many axes")
    for _ in range(COUNT // 5):
        count = pick.randint(7, 20)
        shape = tuple(pick.randint(1, 3) for _ in range(count))
        begin, end = (tuple(pick.randint(-3, 3) for _ in range(count)) for _ in range(2))
        steps = tuple(pick.choice((-2, -1, 1, 1, 1)) for _ in range(count))
        words = [word for values in (shape, begin, end, steps) for word in list_words(values)]
        spec = SliceSpec(begin, end, None, steps)
        expected, answer = answer_of(functools.partial(spec.resolve, shape), ask("slice", *words, *list_words(None)))
        assert answer == expected, (shape, spec)


def assert_same_size(ask: Ask, axis: Bounds, start: Bounds | None, stop: Bounds | None, step: int | None) -> None:
    found = sliced_size(axis, start, stop, step)
    words = [*axis, *bounds_words(start), *bounds_words(stop), or_none(step)]
    assert ask("sliced_size", *words) == f"{found.bounds.low} {found.bounds.high} {int(found.keeps_size)}", words


def intervals(low: int, high: int) -> list[Bounds]:
    return [Bounds(a, b) for a in range(low, high + 1) for b in range(a, high + 1)]


@pytest.mark.parametrize("step", [None, -3, -1, 1, 2])
def test_bounds_of_every_short_axis(ask: Ask, step: int | None) -> None:
    indices = [None, *intervals(-3, 3), Bounds(INT64_MIN, INT64_MAX)]
    axes = [*intervals(0, 3), Bounds(0, INT64_MAX), Bounds(2, INT64_MAX)]
    for axis, start, stop in itertools.product(axes, indices, indices):
        assert_same_size(ask, axis, start, stop, step)


def any_bounds(pick: random.Random) -> Bounds | None:
    if pick.random() < 0.1:
        return None
    return Bounds(
        *sorted(pick.choice((2**63, UINT64_MAX)) if pick.random() < 0.1 else any_integer(pick) for _ in range(2))
    )


def any_size(pick: random.Random) -> int:
    return pick.randint(0, 30) if pick.random() < 0.7 else pick.choice((INT64_MAX, INT64_MAX - 1, 2**31))


def test_any_bounds(ask: Ask) -> None:
    pick = random.Random("bounds")
    for _ in range(COUNT):
        axis = Bounds(*sorted(any_size(pick) for _ in range(2)))
        step = pick.choice((None, 2**63, UINT64_MAX)) if pick.random() < 0.2 else any_step(pick)
        assert_same_size(ask, axis, any_bounds(pick), any_bounds(pick), step)


@pytest.mark.parametrize("far", [0, INT64_MAX - 4])
def test_a_shrunk_index_is_refused_as_in_python(ask: Ask, far: int) -> None:
    sizes = [Bounds(low + far, high + far) for low, high in intervals(0, 4)]
    indices = [
        *intervals(-6, 6),
        *intervals(far - 2, far + 4),
        Bounds(INT64_MIN, INT64_MIN),
        Bounds(-far - 2, -far - 1),
    ]
    for size, index in itertools.product(sizes, indices):
        expected = ""
        try:
            check_shrunk_index(0, 0, size, index)
        except InvalidSlice as error:
            expected = f"InvalidSlice: {error}"
        assert ask("check_shrunk_index", *size, *index) == expected

"""Slices of one axis, composed: exhaustively at small size."""

from __future__ import annotations

import itertools

from sliceport.slicing import INT64_MAX, INT64_MIN, AxisSlice, as_range, resolve_axis, shift
from sliceport.slicing.spec import cut_shape

ENDS = (*range(-5, 6), INT64_MAX, INT64_MIN)
SLICES = [AxisSlice(*entry) for entry in itertools.product((*range(-5, 6), INT64_MAX), ENDS, (1, 2, -1, -2))]


def kept(entry: AxisSlice, listed: list[int]) -> list[int]:
    return [listed[i] for i in resolve_axis(*entry, len(listed))]


def test_slices_of_known_sizes_compose() -> None:
    for size in range(5):
        results: dict[tuple[int, ...], AxisSlice] = {}
        for entry in SLICES:
            results.setdefault(tuple(kept(entry, list(range(size)))), entry)
            assert cut_shape({1: entry}, (3, size)) == (3, len(kept(entry, list(range(size)))))
        for first, second in itertools.product(results.values(), SLICES):
            both = first.then(second, size)
            assert both is not None
            assert kept(both, list(range(size))) == kept(second, kept(first, list(range(size))))


def test_slices_of_open_sizes_compose_for_every_size() -> None:
    made = 0
    for first, second in itertools.product(SLICES, SLICES):
        both = first.then(second, None)
        forward = min(*first, *second) >= 0
        assert (both is None) == (not forward or first.start + second.start * first.step > INT64_MAX)
        if both is not None:
            made += 1
            for size in range(8):
                assert kept(both, list(range(size))) == kept(second, kept(first, list(range(size))))
    assert made > 5000


def test_forward_slices_that_are_empty_for_every_size_are_known() -> None:
    for entry in SLICES:
        is_empty = not any(kept(entry, list(range(size))) for size in range(12))
        assert is_empty or not entry.is_empty_for_every_size(), entry
        if entry.step > 0 and abs(entry.start) <= 5 and abs(entry.end) <= 5:
            assert entry.is_empty_for_every_size() == is_empty, entry


def test_whole_slices_select_every_element() -> None:
    for entry in (*SLICES, AxisSlice(0, INT64_MAX - 1, 1)):
        whole = [kept(entry, list(range(size))) == list(range(size)) for size in range(7)]
        for size in range(7):
            assert entry.is_whole(size) == whole[size]
        if entry.is_whole(None):
            assert all(whole)
    assert AxisSlice(0, INT64_MAX, 1).is_whole(None)
    assert not AxisSlice(0, INT64_MAX - 1, 1).is_whole(None)


def test_ranges_become_slices_that_select_the_same() -> None:
    for size in range(6):
        for entry in SLICES:
            run = resolve_axis(*entry, size)
            assert resolve_axis(*AxisSlice.of(run), size) == run
            if run:
                assert list(resolve_axis(*AxisSlice.of(shift(run, 3)), size + 3)) == [i + 3 for i in run]


def test_progressions_are_found_exactly() -> None:
    for size in range(1, 5):
        for count in range(4):
            for listed in itertools.product(range(-size - 1, size + 1), repeat=count):
                found = as_range(listed, size)
                inside = all(-size <= index < size for index in listed)
                steps_ = {b - a for a, b in itertools.pairwise([index % size for index in listed])}
                if inside and len(steps_) <= 1 and 0 not in steps_:
                    assert found is not None
                    assert list(found) == [index % size for index in listed]
                else:
                    assert found is None

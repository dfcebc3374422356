"""Tilings, disjoint runs and parts of an axis, for every choice of runs on a small axis, against a search of all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from slicing_cases import small_ranges

from sliceport.slicing.tiling import fill_gaps, find_part, find_tilings, select_disjoint

SIZE = 4
RUNS = [range(start, stop) for start in range(SIZE) for stop in range(start + 1, SIZE + 1)]


def choices() -> Iterator[dict[int, range]]:
    for chosen in itertools.product((False, True), repeat=len(RUNS)):
        yield {i: run for i, run in enumerate(RUNS) if chosen[i]}


def tilings(runs: Iterable[range], start: int = 0) -> Iterator[list[range]]:
    if start == SIZE:
        yield []
    for run in runs:
        if run.start == start:
            yield from ([run, *rest] for rest in tilings(runs, run.stop))


def disjoint(runs: Iterable[range], start: int = 0) -> Iterator[list[range]]:
    yield []
    for run in runs:
        if run.start >= start:
            yield from ([run, *rest] for rest in disjoint(runs, run.stop))


def test_tilings_cover_the_axis_and_the_first_has_the_most_runs() -> None:
    for runs in choices():
        found = find_tilings(runs, SIZE)
        keys = [key for tiling in found for key in tiling]
        assert len(set(keys)) == len(keys)
        for tiling in found:
            assert [i for key in tiling for i in runs[key]] == list(range(SIZE))
            assert fill_gaps([runs[key] for key in tiling], SIZE) == [runs[key] for key in tiling]
        most = max(map(len, tilings(runs.values())), default=0)
        assert (len(found[0]) if found else 0) == most
        left = [run for key, run in runs.items() if key not in keys]
        assert not list(tilings(left))


def test_disjoint_runs_are_the_most_and_of_equal_ones_the_longest() -> None:
    for runs in choices():
        picked = [runs[key] for key in select_disjoint(runs)]
        assert all(one.stop <= other.start for one, other in itertools.pairwise(picked))
        best = max((len(each), sum(map(len, each))) for each in disjoint(runs.values()))
        assert (len(picked), sum(map(len, picked))) == best
        parts = fill_gaps(picked, SIZE)
        assert [i for part in parts for i in part] == list(range(SIZE))
        assert all(run in parts for run in picked)


def test_the_part_of_a_range_holds_all_its_indices() -> None:
    for count in range(1, SIZE + 1):
        for ends in itertools.combinations(range(1, SIZE + 1), count):
            parts = [range(start, stop) for start, stop in itertools.pairwise((0, *ends))]
            for kept in small_ranges(ends[-1]):
                expected = [(i, part.start) for i, part in enumerate(parts) if kept and set(kept) <= set(part)]
                assert find_part([*ends], kept) == (expected[0] if expected else None)

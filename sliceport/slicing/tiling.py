"""Sets of runs of one axis that a single Split can produce."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def find_tiling(runs: Mapping[Key, range], size: int) -> list[Key] | None:
    """The largest set of runs that cover `range(size)` without gaps or overlaps, in order; None if there is none.

    Args:
        runs: Non-empty runs of step 1.
        size: Number of elements on the axis.

    >>> find_tiling({"all": range(5), "left": range(2), "right": range(2, 5), "other": range(1, 3)}, size=5)
    ['left', 'right']
    """
    best: dict[int, tuple[int, Key | None]] = {0: (0, None)}  # by the index that runs reach: their number, and the last
    for key in sorted(runs, key=lambda key: (runs[key].start, runs[key].stop)):
        start, stop = runs[key].start, runs[key].stop
        if start in best and best[start][0] + 1 > best.get(stop, (0, None))[0]:
            best[stop] = (best[start][0] + 1, key)
    found: list[Key] = []
    end = size
    while end:
        last = best.get(end, (0, None))[1]
        if last is None:
            return None
        found.append(last)
        end = runs[last].start
    return found[::-1]


def select_disjoint(runs: Mapping[Key, range]) -> list[Key]:
    """The largest set of runs that do not overlap, in order; of equally large ones, that with the most elements.

    Args:
        runs: Non-empty runs of step 1.

    >>> select_disjoint({"all": range(5), "left": range(2), "right": range(3, 5), "short": range(4, 5)})
    ['left', 'right']
    """
    ordered = sorted(runs, key=lambda key: (runs[key].stop, runs[key].start))
    stops = [runs[key].stop for key in ordered]
    best: list[tuple[int, int]] = [(0, 0)]  # by number of runs considered: runs taken, elements in them
    taken: list[bool] = []
    for i, key in enumerate(ordered):
        count, elements = best[bisect_right(stops, runs[key].start, 0, i)]
        with_it = (count + 1, elements + len(runs[key]))
        taken.append(with_it > best[-1])
        best.append(max(with_it, best[-1]))
    found: list[Key] = []
    i = len(ordered)
    while i:
        if taken[i - 1]:
            found.append(ordered[i - 1])
            i = bisect_right(stops, runs[ordered[i - 1]].start, 0, i - 1)
        else:
            i -= 1
    return found[::-1]


def find_part(ends: Sequence[int], kept: range) -> tuple[int, int] | None:
    """The part that holds all of some indices, and where it starts; None if there are none, or in several parts.

    Args:
        ends: Of neighbouring parts from 0 on, the first index after each.
        kept: The indices, below the last of the ends.

    >>> find_part([3, 8], range(7, 4, -1))
    (1, 3)
    """
    if not kept:
        return None
    i = bisect_right(ends, kept[0])
    start = ends[i - 1] if i else 0
    return (i, start) if start <= kept[-1] < ends[i] else None


def fill_gaps(runs: Sequence[range], size: int) -> list[range]:
    """Disjoint runs in order, together with the runs that fill the gaps between them.

    >>> fill_gaps([range(1, 2), range(2, 4)], size=6)
    [range(0, 1), range(1, 2), range(2, 4), range(4, 6)]
    """
    found: list[range] = []
    end = 0
    for run in (*runs, range(size, size)):
        found += [range(end, run.start)] if run.start > end else []
        found += [run] if run else []
        end = run.stop
    return found

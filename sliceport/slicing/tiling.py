"""Sets of runs of one axis that a single Split can produce. A run is a range of step 1."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def find_tilings(runs: Mapping[Key, range], size: int) -> list[list[Key]]:
    """Return sets of runs, each as a list of keys in order. The runs of a set cover `range(size)` without overlaps.

    The first set has as many runs as possible. No run is in two sets. All runs must be non-empty and have step 1. The
    search takes each run only once, so its time is linear after the runs are sorted.

    >>> find_tilings({"all": range(5), "left": range(2), "right": range(2, 5), "other": range(1, 3)}, size=5)
    [['left', 'right'], ['all']]
    """
    # A chain is a sequence of runs from 0 on. Each run starts where the one before it stops.
    # chain_length: the number of runs in the longest chain to each index.
    # runs_ending_at: the runs that stop at each index, each with the length of the longest chain that ends with it.
    chain_length = {0: 0}
    runs_ending_at: dict[int, list[tuple[int, Key]]] = defaultdict(list)
    # All runs that stop at an index come before the runs that start at that index, so `chain_length[start]` is final.
    for key in sorted(runs, key=lambda key: (runs[key].start, runs[key].stop)):
        start, stop = runs[key].start, runs[key].stop
        if start in chain_length:
            runs_ending_at[stop].append((chain_length[start] + 1, key))
            chain_length[stop] = max(chain_length.get(stop, 0), chain_length[start] + 1)
    for candidates in runs_ending_at.values():
        # `pop` takes a run that ends a longest chain. Of several such runs, it takes the run that starts first, because
        # the list is reversed and this sort is stable.
        candidates.reverse()
        candidates.sort(key=itemgetter(0))

    def take_chain() -> list[Key]:
        """Take the runs of a chain from 0 to `size` out of `runs_ending_at`. Return [] if no chain is left."""
        reversed_chain: list[Key] = []
        end = size
        while end:
            if runs_ending_at[end]:
                reversed_chain.append(runs_ending_at[end].pop()[1])
                end = runs[reversed_chain[-1]].start
            elif reversed_chain:
                end = runs[reversed_chain.pop()].stop  # no run is left that ends where this run starts, so drop it
            else:
                return []
        return reversed_chain[::-1]

    return list(iter(take_chain, []))


def select_disjoint(runs: Mapping[Key, range]) -> list[Key]:
    """Return the keys of as many disjoint runs as possible, in order. If sets tie, choose one with the most elements.

    All runs must be non-empty and have step 1.

    >>> select_disjoint({"all": range(5), "left": range(2), "right": range(3, 5), "short": range(4, 5)})
    ['left', 'right']
    """
    ordered = sorted(runs, key=lambda key: (runs[key].stop, runs[key].start))
    stops = [runs[key].stop for key in ordered]
    # Weighted interval scheduling by dynamic programming.
    # best[i]: the best set among the first i runs, as its number of runs and its number of elements.
    # bisect_right(stops, start, 0, i): the number of earlier runs that stop at or before the start of run i.
    # is_better_with[i]: whether the best set among the first i + 1 runs contains run i.
    best: list[tuple[int, int]] = [(0, 0)]
    is_better_with: list[bool] = []
    for i, key in enumerate(ordered):
        count, elements = best[bisect_right(stops, runs[key].start, 0, i)]
        best_with_run = (count + 1, elements + len(runs[key]))
        is_better_with.append(best_with_run > best[-1])
        best.append(max(best_with_run, best[-1]))
    backwards: list[Key] = []
    i = len(ordered)
    while i:
        if is_better_with[i - 1]:
            backwards.append(ordered[i - 1])
            i = bisect_right(stops, runs[ordered[i - 1]].start, 0, i - 1)
        else:
            i -= 1
    return backwards[::-1]


def find_part(ends: Sequence[int], selected: range) -> tuple[int, int] | None:
    """Return the position and the start of the part that holds all indices of `selected`.

    The result is None if `selected` is empty or spans several parts.

    Args:
        ends: The stop index of each part. The first part starts at 0, every other part at the stop of the part before.
        selected: The indices, all of them below the last stop.

    >>> find_part([3, 8], range(7, 4, -1))
    (1, 3)
    """
    if not selected:
        return None
    i = bisect_right(ends, selected[0])
    start = ends[i - 1] if i else 0
    return (i, start) if start <= selected[-1] < ends[i] else None


def fill_gaps(runs: Sequence[range], size: int) -> list[range]:
    """Return runs that cover `range(size)`, in order: `runs`, and a new run for each gap before, between or after them.

    The runs must be disjoint, in order and of step 1. Empty runs are left out.

    >>> fill_gaps([range(1, 2), range(2, 4)], size=6)
    [range(0, 1), range(1, 2), range(2, 4), range(4, 6)]
    """
    filled: list[range] = []
    end = 0
    for run in (*runs, range(size, size)):  # an empty run at the end, so that the last gap is filled
        filled += [part for part in (range(end, run.start), run) if part]
        end = run.stop
    return filled

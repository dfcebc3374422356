"""Timing side by side: variants take turns, and the best of all turns counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

TURN = 1e-3
"""Intended seconds of a turn of the slowest variant, which has 2 to 100 runs.

It cannot be short: OpenVINO's threads stay with one model for a while after its run.
"""


def best_of_turns(runs: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the shortest time of one run of each variant, in seconds.

    Args:
        runs: The functions by variant.
        seconds: The time for all turns; each variant has at least five turns.
    """
    slowest = max(map(_time_once, runs.values()))
    count = max(2, min(100, int(TURN / slowest)))
    best = dict.fromkeys(runs, float("inf"))
    started, turns = time.perf_counter(), 0
    while turns < 5 or time.perf_counter() - started < seconds:
        turns += 1
        for name, run in runs.items():
            run()  # not measured, because the run before was of another variant
            begun = time.perf_counter()
            for _ in range(count):
                run()
            best[name] = min(best[name], (time.perf_counter() - begun) / count)
    return best


def _time_once(run: Callable[[], object]) -> float:
    """Return the seconds of the second of two runs."""
    run()
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun

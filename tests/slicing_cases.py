"""Every selection of a small axis."""

from __future__ import annotations

import itertools


def small_ranges(size: int) -> list[range]:
    """Return every selection of an axis of `size` that some start, stop and step make, each once."""
    found = {range(0)}
    steps = (*range(-size, 0), *range(1, size + 1))
    for start, stop, step in itertools.product(range(size), range(-1, size + 1), steps):
        found.add(range(start, stop, step))
    return sorted(found, key=lambda kept: (len(kept), tuple(kept)))

"""Shapes, bounds, steps, sizes of parts and masks, as fuzzers draw them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
FAR = (INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, 2**62, 10**9)
FAR_32 = (2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, -(2**31) - 1, -(2**31), -(2**31) + 1, 2**32, 2**32 - 1, -(2**32))
MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")


def shape(random: Random, ranks: Sequence[int], max_elements: int) -> list[int]:
    """Return sizes of few elements, seldom an empty one."""
    rank = random.choice(ranks)
    common = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 11, 16, 32)
    sizes = [0 if random.random() < 0.04 else random.choice(common) for _ in range(rank)]
    while prod(sizes) > max_elements:
        sizes[random.randrange(rank)] = random.choice((1, 2))
    return sizes


def bound(random: Random, size: int) -> int:
    """Return a start or an end on an axis."""
    how = random.random()
    if how < 0.08:
        return random.choice(FAR)
    if how < 0.15:
        return random.choice(FAR_32)
    if how < 0.5:
        return random.choice((0, -1, 1, size, -size, size - 1, -size - 1, size + 1))
    return random.randint(-size - 2, size + 2)


def step(random: Random, size: int) -> int:
    """Return a step, which is not 0."""
    how = random.random()
    if how < 0.6:
        return random.choice((1, 1, 1, -1, 2, -2))
    if how < 0.7:
        return random.choice(FAR + FAR_32)
    return random.choice((1, -1)) * random.randint(1, size + 2)


def parts(random: Random, size: int, count: int) -> list[int]:
    """Return sizes of parts that an axis is cut into."""
    cuts = sorted(random.randint(0, size) for _ in range(count - 1))
    return [stop - start for start, stop in zip([0, *cuts], [*cuts, size], strict=True)]


def masks(random: Random, count: int) -> dict[str, list[int]]:
    """Return masks of a StridedSlice of `count` entries, some of another length."""
    share = random.choice((0.1, 0.3))
    drawn = {}
    for name in MASKS:
        if random.random() < 0.5:
            length = count if random.random() < 0.7 else random.randint(0, count + 2)
            drawn[name] = [int(random.random() < share) for _ in range(length)]
    return drawn

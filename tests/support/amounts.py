"""Amounts of random or repeated cases that tests try: a third, or all if the environment has LONG=yes, as in CI.

Each random case is drawn by its number, so that a short run tries the first cases of a long one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

Item = TypeVar("Item")

_IS_LONG = os.environ.get("LONG") == "yes"

long_only = pytest.mark.skipif(not _IS_LONG, reason="takes long: LONG=yes runs it, as CI does")


def amount(cases: int) -> int:
    """Return the number of cases to try of `cases`."""
    return cases if _IS_LONG else -(-cases // 3)


def some(items: Sequence[Item], start: int = 0) -> Sequence[Item]:
    """Return each third item, counted from `start`; all of them in a long run."""
    return items if _IS_LONG else items[start % 3 :: 3]

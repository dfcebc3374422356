"""What a run over many models shows while it lasts: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sliceport.cli.console import say

if TYPE_CHECKING:
    from sliceport.batch.task import Done

_INTERVAL = 30.0
"""Seconds between two lines."""


class Progress:
    """A bar where stderr is a terminal and rich is installed; else a line every 30 seconds.

    Args:
        lists: Whether there is a line for each model instead.
    """

    def __init__(self, *, lists: bool = False) -> None:
        self._lists = lists
        self._begun = self._said = time.monotonic()
        self._total = 0
        self._done = self._cached = 0
        self._verdicts: Counter[str] = Counter()
        self._bar = None if lists else _make_bar()
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.stop()

    def begin(self, total: int) -> None:
        """There are so many models."""
        self._total = total
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=total, rate="", findings="")

    def add(self, done: Done) -> None:
        """One more is done."""
        self._done += 1
        self._cached += done.cached
        self._verdicts[done.verdict] += 1
        now = time.monotonic()
        if self._lists:
            before = ", was there before" if done.cached else ""
            say(f"{self._done}/{self._total} {done.verdict} '{done.model}' ({done.seconds:.2g} s{before})")
        elif self._bar is not None:
            self._bar.update(self._task, advance=1, rate=f"{self._rate(now):.3g}/s", findings=self._describe())
        elif now - self._said >= _INTERVAL:
            self._said = now
            say(self._line(now))

    def _rate(self, now: float) -> float:
        return self._done / max(now - self._begun, 1e-3)

    def _line(self, now: float) -> str:
        left = (self._total - self._done) / max(self._rate(now), 1e-9)
        rate = f"{self._rate(now):.3g} a second, about {_duration(left)} left"
        return f"{self._done} of {self._total} models, {rate}{self._describe(', ')}"

    def _describe(self, before: str = "") -> str:
        """The verdicts so far that are not clean."""
        listed = [f"{count} {verdict}" for verdict, count in sorted(self._verdicts.items()) if verdict != "clean"]
        return before + ", ".join(listed) if listed else ""


def _duration(seconds: float) -> str:
    """A time in the unit that fits.

    >>> _duration(42), _duration(600), _duration(36000)
    ('42 s', '10 min', '10.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _make_bar() -> Any:
    """A bar with rate, estimate and findings; None where there is no terminal or no rich."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}", markup=False),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[findings]}", markup=False),
    )
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)

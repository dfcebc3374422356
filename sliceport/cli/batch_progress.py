"""Progress of a run over many models: a bar on a terminal, or a line every 30 seconds."""

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
    """A bar if stderr is a terminal and rich is installed; otherwise a line every 30 seconds.

    Args:
        lists: Whether to print a line for each model instead.
    """

    def __init__(self, *, lists: bool = False) -> None:
        self._lists = lists
        self._begun = self._last_line = time.monotonic()
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
        """Note the number of models, and show the bar."""
        self._total = total
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=total, rate="", findings="")

    def add(self, done: Done) -> None:
        """Count one more model, and show the progress."""
        self._done += 1
        self._cached += done.cached
        self._verdicts[done.verdict] += 1
        now = time.monotonic()
        if self._lists:
            origin = ", stored by an earlier run" if done.cached else ""
            say(f"{self._done}/{self._total} {done.verdict} '{done.model}' ({done.seconds:.2g} s{origin})")
        elif self._bar is not None:
            self._bar.update(self._task, advance=1, rate=f"{self._rate(now):.3g}/s", findings=self._list_verdicts())
        elif now - self._last_line >= _INTERVAL:
            self._last_line = now
            say(self._format_line(now))

    def _rate(self, now: float) -> float:
        return self._done / max(now - self._begun, 1e-3)

    def _format_line(self, now: float) -> str:
        seconds = (self._total - self._done) / max(self._rate(now), 1e-9)
        rate = f"{self._rate(now):.3g} a second, about {_format_duration(seconds)} left"
        return ", ".join(filter(None, (f"{self._done} of {self._total} models", rate, self._list_verdicts())))

    def _list_verdicts(self) -> str:
        """List the verdicts so far with their counts, without the clean ones."""
        counts = sorted(self._verdicts.items())
        return ", ".join(f"{count} {verdict}" for verdict, count in counts if verdict != "clean")


def _format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    >>> _format_duration(42), _format_duration(600), _format_duration(36000)
    ('42 s', '10 min', '10.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _make_bar() -> Any:
    """Return a bar with rate, estimate and findings, or None if there is no terminal or rich is not installed."""
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

"""Progress of a run over many models: one changing line on a terminal, elsewhere a new line every 30 seconds."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from sliceport.cli.console import can_show_status, say, show_status

if TYPE_CHECKING:
    from sliceport.batch.task import Done

_INTERVAL, _TERMINAL_INTERVAL = 30.0, 0.1
"""Seconds between two lines, and between two states of the line on a terminal."""


class Progress:
    """Counts of a run under way. A line shows them from time to time. With `lists`, each model has a line instead."""

    def __init__(self, *, lists: bool = False) -> None:
        self._lists = lists
        self._start = self._last_shown = time.monotonic()
        self._total = self._done = 0
        self._verdicts: Counter[str] = Counter()

    def set_total(self, total: int) -> None:
        """Set the number of models and bad sources."""
        self._total = total

    def add(self, done: Done) -> None:
        """Count one more model or bad source, and show the progress."""
        self._done += 1
        self._verdicts[done.verdict] += 1
        now = time.monotonic()
        if self._lists:
            origin = ", stored by an earlier run" if done.cached else ""
            say(f"{self._done}/{self._total} {done.verdict} '{done.model}' ({done.seconds:.2g} s{origin})")
        elif now - self._last_shown >= (_TERMINAL_INTERVAL if can_show_status() else _INTERVAL):
            self._last_shown = now
            (show_status if can_show_status() else say)(self._format_line(now))

    def _format_line(self, now: float) -> str:
        rate = self._done / max(now - self._start, 1e-3)  # the time may be 0, but `_done` is at least 1
        time_left = _format_duration((self._total - self._done) / rate)
        parts = [f"{self._done} of {self._total} models", f"{rate:.3g} a second, about {time_left} left"]
        parts += [f"{count} {verdict}" for verdict, count in sorted(self._verdicts.items()) if verdict != "clean"]
        return ", ".join(parts)


def _format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    >>> _format_duration(42), _format_duration(600), _format_duration(36000)
    ('42 s', '10 min', '10.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

"""Processes that a busy machine holds up."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

_LOOKS, _PAUSE = 20, 0.05
"""Number of looks at the threads, and seconds between looks. A single look may find a busy thread in a short sleep."""
_TICKS_A_SECOND = 100
"""Unit of the times in /proc, `USER_HZ` of Linux."""


def is_held_up(process: int, limit: float) -> bool:
    """Return whether a process and its descendants have work, but have used less than `limit` seconds of CPU time.

    They have work if one of their threads runs, or waits for a processor or a disk. Return False on systems
    without /proc.
    """
    for _ in range(_LOOKS):
        states, seconds = _read_states_and_seconds(process)
        if seconds >= limit:
            return False
        if not states.isdisjoint("RD"):  # running or runnable, and uninterruptible: see proc_pid_stat(5)
            return True
        time.sleep(_PAUSE)
    return False


def _read_states_and_seconds(process: int) -> tuple[set[str], float]:
    """Return the states of all threads of a process and its descendants, and their CPU time in seconds."""
    states: set[str] = set()
    seconds = 0.0
    with suppress(OSError):  # the process has ended, or there is no /proc
        folder = Path(f"/proc/{process}")
        seconds = sum(map(int, _read_fields(folder)[11:13])) / _TICKS_A_SECOND  # fields 14 and 15: user and kernel
        for thread in folder.joinpath("task").iterdir():
            with suppress(OSError):  # this thread has ended, or the kernel lists no children
                states.add(_read_fields(thread)[0])
                for child in thread.joinpath("children").read_text().split():
                    states_of_child, seconds_of_child = _read_states_and_seconds(int(child))
                    states |= states_of_child
                    seconds += seconds_of_child
    return states, seconds


def _read_fields(folder: Path) -> list[str]:
    """Return the fields of a `stat` file from field 3 on. Field 2, a name, may contain spaces and brackets."""
    return folder.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()

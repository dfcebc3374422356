"""Limits of time and memory as options."""

from __future__ import annotations

import argparse
import re

from sliceport.errors import UsageError

_MIN_MEMORY = 2**28
"""Below it a process may lack the memory to load the engines."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def add_limits(command: argparse.ArgumentParser) -> None:
    """Add --timeout and --memory."""
    command.add_argument("--timeout", default="0", metavar="S", help="end the command after so many seconds")
    command.add_argument("--memory", default="0", metavar="SIZE", help="bound the memory of its process, as in 4G")


def parse_seconds(text: str) -> float | None:
    """Return the seconds of --timeout; None for no limit.

    Raises:
        UsageError: The text is not a number.
    """
    if not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", text):
        raise UsageError(f"--timeout must be a number of seconds, or 0 for any, got {text!r}.")
    return float(text) or None


def parse_size(text: str) -> int | None:
    """Return the bytes of --memory; None for no limit.

    Raises:
        UsageError: The text is not a size, or the size is too small.
    """
    found = re.fullmatch(r"(\d{1,12})\s*([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"--memory must be a size such as 512M or 4G, or 0 for any, got {text!r}.")
    size = int(found[1]) * _UNITS[found[2].upper()]
    if 0 < size < _MIN_MEMORY:
        raise UsageError(f"--memory must be at least {_MIN_MEMORY // 2**20}M, or 0 for any, got {text!r}.")
    return size or None

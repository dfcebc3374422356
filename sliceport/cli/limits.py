"""Limits of time and memory as options, so that no model occupies a machine unless its user lets it."""

from __future__ import annotations

import argparse
import os
import re
from contextlib import AbstractContextManager, suppress

from sliceport.errors import UsageError
from sliceport.limits import limited

_SECONDS, _SECONDS_PER_BYTE = 8.0, 0.1 / 2**20
_MEMORY, _MEMORY_PER_BYTE = 800 * 2**20, 8
_SMALL = 10 * 2**20
"""Bytes of a model from which on it may take more."""
_MIN_MEMORY = 2**28
"""Below it a process may lack the memory to load the engines."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def add_limits(command: argparse.ArgumentParser, seconds: float = _SECONDS, memory: int = _MEMORY) -> None:
    """Add --timeout and --memory, with their defaults for a small model."""
    command.set_defaults(seconds=seconds, bytes=memory)
    command.add_argument(
        "--timeout", metavar="S", help=f"seconds of processor time; default {seconds:g}, more above 10 MiB, 0 for any"
    )
    command.add_argument(
        "--memory",
        metavar="SIZE",
        help=f"memory of the process; default {memory >> 20}M, more above 10 MiB, 0 for any",
    )


def within_limits(options: argparse.Namespace) -> AbstractContextManager[None]:
    """The limits of the work on the model, as `add_limits` found them.

    Raises:
        UsageError: A value is not written as it must be.
    """
    beyond = max(_size(options.model) - _SMALL, 0)
    seconds = round(options.seconds + _SECONDS_PER_BYTE * beyond, 1)
    memory = options.bytes + _MEMORY_PER_BYTE * beyond
    return limited(
        seconds if options.timeout is None else parse_seconds(options.timeout),
        memory if options.memory is None else parse_size(options.memory),
    )


def _size(model: str) -> int:
    """The bytes of a model, those of the weights of IR beside it included; 0 for what is not there."""
    total = 0
    for file in {model, f"{os.path.splitext(model)[0]}.bin"}:
        with suppress(OSError, ValueError):
            total += os.path.getsize(file)
    return total


def parse_seconds(text: str) -> float | None:
    """The seconds of --timeout; None for any.

    Raises:
        UsageError: It is no number.
    """
    if not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", text):
        raise UsageError(f"--timeout must be a number of seconds, or 0 for any, got {text!r}.")
    return float(text) or None


def parse_size(text: str) -> int | None:
    """The bytes of --memory; None for any.

    Raises:
        UsageError: It is no size, or too small a one.
    """
    found = re.fullmatch(r"(\d{1,12})\s*([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"--memory must be a size such as 512M or 4G, or 0 for any, got {text!r}.")
    size = int(found[1]) * _UNITS[found[2].upper()]
    if 0 < size < _MIN_MEMORY:
        raise UsageError(f"--memory must be at least {_MIN_MEMORY // 2**20}M, or 0 for any, got {text!r}.")
    return size or None

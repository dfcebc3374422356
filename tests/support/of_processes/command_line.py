"""The type of the fixture `invoke`, which runs the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Printed(NamedTuple):
    """Texts that a command printed to stdout and stderr."""

    out: str
    err: str


Invoke = Callable[..., Printed]

"""One thread at a time: OpenVINO 2026.4 may hang where one reads a model and another the data of a constant."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let a thread wait while another is in a function that is decorated so."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _lock:
            return function(*args, **kwargs)

    return call


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - in a forked process, where nobody is left to release it
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

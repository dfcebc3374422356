"""A lock around OpenVINO: 2026.4 may hang if one thread reads a model while another reads the data of a constant."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()


def with_openvino_lock(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that only one thread at a time runs it or another function with this decorator."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _lock:
            return function(*args, **kwargs)

    return call


def _renew_lock() -> None:
    # A forked process has only one thread. A lock that another thread of the parent held would never be released.
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

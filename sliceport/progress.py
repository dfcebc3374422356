"""What is being done, told to whoever wants to show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str], None]
_listeners: list[Listener] = []
_announced_to: list[Listener] = []


def say(what: str) -> None:
    """Tell what is done from now on, such as `comparing node 3 of 8`."""
    for listener in _listeners:
        listener(what)


def announce(what: str) -> None:
    """Tell something that should not be missed, such as that a run waits for others, and is no error."""
    for listener in _announced_to:
        listener(what)


@contextmanager
def announcing(listener: Listener) -> Iterator[None]:
    """Call a function with everything that `announce` tells while it lasts."""
    _announced_to.append(listener)
    try:
        yield
    finally:
        _announced_to.remove(listener)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function with everything that `say` tells while it lasts."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)

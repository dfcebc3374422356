"""Progress messages, for listeners such as a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str], None]
_listeners: list[tuple[Listener, Listener]] = []
"""The listeners to activities and to announcements, in pairs as `listen_to_progress` got them."""


def say(activity: str) -> None:
    """Report the current activity, such as `comparing node 3 of 8`."""
    for listener, _ in _listeners:
        listener(activity)


def announce(message: str) -> None:
    """Report an important event other than an error. An example is a wait for a worker."""
    for _, listener in _listeners:
        listener(message)


@contextmanager
def listen_to_progress(activity: Listener = lambda _: None, announcement: Listener = lambda _: None) -> Iterator[None]:
    """Inside the `with` block, pass messages of `say` to `activity`, and messages of `announce` to `announcement`."""
    entry = (activity, announcement)
    _listeners.append(entry)
    try:
        yield
    finally:
        _listeners.remove(entry)

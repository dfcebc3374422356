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
    """Report something that the user should not miss but that is not an error, such as waiting for a worker."""
    for _, listener in _listeners:
        listener(message)


@contextmanager
def listen_to_progress(activity: Listener = lambda _: None, announcement: Listener = lambda _: None) -> Iterator[None]:
    """Call `activity` for each message of `say`, and `announcement` for each of `announce`, inside the `with` block."""
    entry = (activity, announcement)
    _listeners.append(entry)
    try:
        yield
    finally:
        _listeners.remove(entry)

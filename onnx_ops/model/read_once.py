"""What is read of constants, which many nodes may share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_kept: ContextVar[dict[Hashable, tuple[object, Any]] | None] = ContextVar("kept", default=None)


@contextmanager
def reading_once() -> Iterator[None]:
    """While it lasts, `read_once` keeps what it has read: nothing may change constants meanwhile, but replace them."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def read_once(source: object, what: Hashable, read: Callable[[], T]) -> T:
    """What a function reads of a constant, from what was kept if that was read before.

    Args:
        source: The tensor or the attribute; it is known by its identity.
        what: What is read of it.
        read: Reads it.
    """
    kept = _kept.get()
    if kept is None:
        return read()
    key = (id(source), what)
    if key not in kept:
        kept[key] = source, read()  # with the source, for its `id` not to become that of another
    found: T = kept[key][1]
    return found

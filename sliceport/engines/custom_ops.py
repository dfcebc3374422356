"""The library of custom operators that a command was given for the engines that run its models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_library = ContextVar("library", default="")


@contextmanager
def with_custom_ops(library: str) -> Iterator[None]:
    """Give each engine with an option `custom_ops` this library in a `with` block, unless it has another one."""
    token = _library.set(library)
    try:
        yield
    finally:
        _library.reset(token)


def custom_ops() -> str:
    """Return the library of the innermost `with` block of `with_custom_ops`, or an empty string."""
    return _library.get()

"""A cache for reads of constants, which many nodes may share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_cache: ContextVar[dict[Hashable, tuple[object, Any]] | None] = ContextVar("cache", default=None)


@contextmanager
def caching_reads() -> Iterator[None]:
    """Cache the results of `cached_read` inside the context.

    Inside the context, the caller may replace a constant by another object, but must not change its elements.
    """
    if _cache.get() is not None:  # an inner context shares the cache of the outer one
        yield
        return
    token = _cache.set({})
    try:
        yield
    finally:
        _cache.reset(token)


def cached_read(source: object, name: Hashable, read: Callable[[], T]) -> T:
    """Return a property of a constant. If `caching_reads` is active, read each property only once.

    Args:
        source: The tensor or the attribute that is the constant. Its identity and `name` are the key of the cache.
        name: The name of the property.
        read: A function that reads the property.
    """
    cache = _cache.get()
    if cache is None:
        return read()
    key = (id(source), name)
    if key not in cache:
        cache[key] = source, read()  # the cache keeps the source alive, so that no other object gets its `id`
    result: T = cache[key][1]
    return result

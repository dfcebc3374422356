"""Objects that installed packages register under a group of entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from sliceport.errors import UsageError


@dataclass(frozen=True)
class EntryPoint:
    """An entry point and its object.

    Attributes:
        name: The name of the entry point.
        value: The module and the name of the object, as `module:name`.
        distribution: The distribution that installed it; empty if unknown.
        loaded: The object; None if it cannot be used.
        error: The reason why the object cannot be used.
    """

    name: str
    value: str
    distribution: str
    loaded: Any = None
    error: UsageError | None = None


def try_entry_points(group: str, describe_misfit: Callable[[Any], str] = lambda _: "") -> Iterator[EntryPoint]:
    """Yield the entry points of a group, sorted by name, including those that are unusable.

    Args:
        group: The group.
        describe_misfit: Returns the end of a sentence that says why an object is unsuitable, or an empty string.
    """
    names: set[str] = set()
    for point in sorted(metadata.entry_points(group=group), key=lambda point: point.name):
        identity = (point.name, point.value, point.dist.name if point.dist else "")
        label = f"entry point {point.name!r} of {group} ({point.value})"
        try:
            loaded = point.load()
            misfit = describe_misfit(loaded)
            if not misfit and loaded.name in names:
                misfit = f"takes the name {loaded.name!r}, which another one has"
        except (Exception, SystemExit) as error:  # a module of another package may raise anything
            failure = UsageError(f"{label} cannot be loaded: {type(error).__name__}: {error}.")
            failure.__cause__ = error
            yield EntryPoint(*identity, error=failure)
            continue
        if misfit:
            yield EntryPoint(*identity, error=UsageError(f"{label} {misfit}."))
            continue
        names.add(loaded.name)
        yield EntryPoint(*identity, loaded)


def load_entry_points(group: str, describe_misfit: Callable[[Any], str] = lambda _: "") -> dict[str, Any]:
    """Return the registered objects by their `name` attribute, in the order of the entry points' names.

    Args:
        group: The group.
        describe_misfit: Function that returns why an object is unsuitable; see `try_entry_points`.

    Raises:
        UsageError: An object cannot be loaded, is unsuitable, or has the name of another one.
    """
    loaded: dict[str, Any] = {}
    for point in try_entry_points(group, describe_misfit):
        if point.error is not None:
            raise point.error
        loaded[point.loaded.name] = point.loaded
    return loaded

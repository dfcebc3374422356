"""Objects that installed packages register under a group of entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

from sliceport.errors import UsageError


def try_entry_points(group: str, describe_misfit: Callable[[Any], str]) -> Iterator[tuple[metadata.EntryPoint, Any]]:
    """Yield the entry points of a group in the order of their names, each with the object that it loads.

    A UsageError replaces an object that cannot be loaded, is unsuitable, or has the name of an earlier object.
    `describe_misfit` returns why an object is unsuitable, as the end of a sentence; empty for a suitable object.
    """
    names: set[str] = set()
    for point in sorted(metadata.entry_points(group=group), key=lambda point: point.name):
        label = f"entry point {point.name!r} of {group} ({point.value})"
        try:
            result = point.load()
            misfit = describe_misfit(result)
            if not misfit and result.name in names:
                misfit = f"has the name {result.name!r}, like an earlier entry point"
            if misfit:
                result = UsageError(f"{label} {misfit}.")
            else:
                names.add(result.name)
        except (Exception, SystemExit) as error:  # a module of another package may raise anything
            result = UsageError(f"{label} cannot be loaded: {type(error).__name__}: {error}.")
            result.__cause__ = error
        yield point, result


def load_entry_points(group: str, describe_misfit: Callable[[Any], str]) -> dict[str, Any]:
    """Return the registered objects by their `name` attribute, in the order of the entry points' names.

    Raises:
        UsageError: An object cannot be loaded, is unsuitable, or has an earlier object's name; see `try_entry_points`.
    """
    objects: dict[str, Any] = {}
    for _, loaded in try_entry_points(group, describe_misfit):
        if isinstance(loaded, UsageError):
            raise loaded
        objects[loaded.name] = loaded
    return objects

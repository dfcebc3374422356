"""What installed packages register under a group of entry points."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

from sliceport.errors import UsageError


def load_entry_points(group: str, complain: Callable[[Any], str] = lambda _: "") -> dict[str, Any]:
    """What is registered, by its own `name`, in the order of the entry points' names.

    Args:
        group: The group.
        complain: Why an object cannot be what the group is for, as the end of a sentence; empty where it can.

    Raises:
        UsageError: An entry point cannot be loaded, is not what the group is for, or takes a name that another has.
    """
    found: dict[str, Any] = {}
    for point in sorted(metadata.entry_points(group=group), key=lambda point: point.name):
        where = f"entry point {point.name!r} of {group} ({point.value})"
        try:
            loaded = point.load()
        except Exception as error:  # whatever importing somebody's module raises
            raise UsageError(f"{where} cannot be loaded: {type(error).__name__}: {error}.") from error
        complaint = complain(loaded)
        if complaint:
            raise UsageError(f"{where} {complaint}.")
        if loaded.name in found:
            raise UsageError(f"{where} takes the name {loaded.name!r}, which another one has.")
        found[loaded.name] = loaded
    return found

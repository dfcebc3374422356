"""What installed packages register under a group of entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from sliceport.errors import UsageError


@dataclass(frozen=True)
class EntryPoint:
    """What a package registers.

    Attributes:
        name: The name of the entry point.
        value: Where it is, as `module:name`.
        distribution: What installed it; empty where that is not known.
        loaded: What was found there; None where it cannot be used.
        error: Why it cannot be used.
    """

    name: str
    value: str
    distribution: str
    loaded: Any = None
    error: UsageError | None = None


def try_entry_points(group: str, complain: Callable[[Any], str] = lambda _: "") -> Iterator[EntryPoint]:
    """What is registered under a group, in the order of the entry points' names, whether it can be used or not.

    Args:
        group: The group.
        complain: Why an object cannot be what the group is for, as the end of a sentence; empty where it can.
    """
    names: set[str] = set()
    for point in sorted(metadata.entry_points(group=group), key=lambda point: point.name):
        place = (point.name, point.value, point.dist.name if point.dist else "")
        where = f"entry point {point.name!r} of {group} ({point.value})"
        try:
            loaded = point.load()
            complaint = complain(loaded)
            if not complaint and loaded.name in names:
                complaint = f"takes the name {loaded.name!r}, which another one has"
        except (Exception, SystemExit) as error:  # whatever importing and asking somebody's module raises
            failure = UsageError(f"{where} cannot be loaded: {type(error).__name__}: {error}.")
            failure.__cause__ = error
            yield EntryPoint(*place, error=failure)
            continue
        if complaint:
            yield EntryPoint(*place, error=UsageError(f"{where} {complaint}."))
            continue
        names.add(loaded.name)
        yield EntryPoint(*place, loaded)


def load_entry_points(group: str, complain: Callable[[Any], str] = lambda _: "") -> dict[str, Any]:
    """What is registered, by its own `name`, in the order of the entry points' names.

    Args:
        group: The group.
        complain: See `try_entry_points`.

    Raises:
        UsageError: An entry point cannot be loaded, is not what the group is for, or takes a name that another has.
    """
    found: dict[str, Any] = {}
    for point in try_entry_points(group, complain):
        if point.error is not None:
            raise point.error
        found[point.loaded.name] = point.loaded
    return found

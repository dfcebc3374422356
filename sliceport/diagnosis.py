"""What something that is installed, or could be, says about itself: for `sliceport doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from typing import Literal, Protocol, runtime_checkable

Status = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Diagnosis:
    """The state of one thing.

    Attributes:
        name: What it is.
        status: `ok`; `missing`, where it is optional and not there; `broken`, where it is there and does not work.
        detail: Its version, or why it is missing or broken.
        advice: The command that gets or mends it; empty where there is none.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""


@runtime_checkable
class Diagnosable(Protocol):
    """A format or an engine that says how it is: both may have this method, and neither has to."""

    def diagnose(self) -> Iterable[Diagnosis]:
        """What it needs, and whether that is there and works; it raises nothing."""
        ...


@cache
def _distributions() -> Mapping[str, list[str]]:
    """What installs each package: found out once, for all lists of installed files are read for it."""
    return metadata.packages_distributions()


def diagnose_package(module: str, advice: str, *, distribution: str | None = None) -> Diagnosis:
    """Whether a package is installed and can be imported.

    Args:
        module: The package.
        advice: The command that installs it.
        distribution: What installs it, by default whatever does.
    """
    name = distribution or module
    installed = [name] if distribution else _distributions().get(module, [])
    try:
        versions = [f"{one} {metadata.version(one)}" for one in dict.fromkeys(installed)]
    except metadata.PackageNotFoundError:
        versions = []
    if not versions:
        return Diagnosis(name, "missing", "not installed", advice)
    try:
        import_module(module)
    except (Exception, SystemExit) as error:  # whatever a package raises that does not fit this machine
        return Diagnosis(name, "broken", f"{', '.join(versions)}: {type(error).__name__}: {error}", advice)
    return Diagnosis(name, "ok", ", ".join(versions).removeprefix(f"{name} "))

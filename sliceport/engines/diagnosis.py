"""Diagnoses of packages, formats and engines for `sliceport doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from typing import Literal, Protocol, runtime_checkable

Status = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Diagnosis:
    """The state of a package, library or program that sliceport uses.

    Attributes:
        name: Its name.
        status: `ok`, `missing` (it is optional and not installed) or `broken` (it is installed and does not work).
        detail: Its version, or the reason why it is missing or broken.
        advice: The remedy if it is missing or broken, such as `run: pip install numpy`; may be empty.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""


@runtime_checkable
class Diagnosable(Protocol):
    """A format or an engine with the optional method `diagnose`."""

    def diagnose(self) -> Iterable[Diagnosis]:
        """Return the state of everything that the format or engine needs, without raising an error."""


_distributions = cache(metadata.packages_distributions)
"""Maps packages to the distributions that install them. It reads all file lists, so its result is cached."""


def diagnose_package(module: str, advice: str, *, distribution: str | None = None) -> Diagnosis:
    """Check whether a package is installed and can be imported.

    Args:
        module: The name of the package in an import statement.
        advice: The remedy if the package is missing or broken, such as `run: pip install numpy`.
        distribution: The distribution that must be installed; by default any distribution that contains the package.
    """
    name = distribution or module
    candidates = [name] if distribution else _distributions().get(module, [])
    try:
        # A distribution may be listed twice.
        versions = [f"{package} {metadata.version(package)}" for package in dict.fromkeys(candidates)]
    except metadata.PackageNotFoundError:
        versions = []
    if not versions:
        return Diagnosis(name, "missing", "not installed", advice)
    try:
        import_module(module)
    except (Exception, SystemExit) as error:  # a package that does not fit this machine may raise anything
        return Diagnosis(name, "broken", f"{', '.join(versions)}: {type(error).__name__}: {error}", advice)
    # The detail does not repeat the name of the diagnosis.
    return Diagnosis(name, "ok", ", ".join(versions).removeprefix(f"{name} "))

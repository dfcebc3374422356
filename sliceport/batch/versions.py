"""Versions of the installed packages that the results of a run depend on."""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata

from sliceport import __version__
from sliceport.device import install
from sliceport.engines import registry
from sliceport.formats import GROUP

_IRRELEVANT = ("cli", "batch", "fsspec", "dask")
"""Extras whose packages cannot change a result."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on, and of DirectML and its validator if usable."""
    required = {_normalize(name) for name in _requirements()}
    version_by_name = {
        name: distribution.version
        for distribution in metadata.distributions()
        # Builds of onnxruntime for other devices have names such as onnxruntime-gpu.
        if (name := _normalize(distribution.name or "")) in required or name.startswith("onnxruntime-")
    }
    points = [point for group in (GROUP, registry.GROUP) for point in metadata.entry_points(group=group)]
    version_by_name |= {_normalize(point.dist.name): point.dist.version for point in points if point.dist is not None}
    version_by_name |= {"sliceport": __version__}
    is_runnable = install.missing_requirement() is None and install.is_installed()
    installed = {"directml": install.folder().name} if is_runnable else {}
    if install.is_validator_installed():
        installed["directml-validator"] = install.validator_folder().name
    return dict(sorted(version_by_name.items())) | installed


def _requirements() -> list[str]:
    """Return the names of the packages that sliceport requires, without those of the extras in `_IRRELEVANT`."""
    requirements = metadata.requires("sliceport") or []
    extra = re.compile(r"""extra\s*==\s*["']([^"']+)""")
    return [
        re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]  # the name before a version or an extra
        for requirement in requirements
        if not ((match := extra.search(requirement)) and match[1] in _IRRELEVANT)
    ]


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()  # as PEP 503 normalizes names


def describe_difference(here: dict[str, str], there: dict[str, str]) -> str:
    """Describe the packages that differ between two machines, as part of a sentence; empty if none differs."""
    names = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    return ", ".join(f"{name} {here.get(name, 'missing')} instead of {there.get(name, 'missing')}" for name in names)

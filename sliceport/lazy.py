"""Public names of a package that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], defined: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a `__getattr__` that imports the public names of a package on first use, and a `__dir__` that lists them.

    Args:
        package: The name of the package.
        modules: The defining module of each public name.
        defined: The public names that the package itself defines.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return load, lambda: sorted((*modules, *defined))

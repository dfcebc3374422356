"""Build backend: hatchling, which also compiles the operators in C++ if SLICEPORT_NATIVE=yes is set.

A wheel with these operators is for one platform. Without the variable, the wheel is pure Python, and
`python -m ov_ext.native build` compiles the operators later.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling import build as hatchling_build
from hatchling.build import *  # noqa: F403 - the functions of PEP 517 and 660
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
VARIABLE = "SLICEPORT_NATIVE"
LIBRARY_FOLDER = "ov_ext/native/lib"


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return the requirements of a build. An editable build compiles nothing and uses hatchling's own function."""
    requirements = hatchling_build.get_requires_for_build_wheel(config_settings)
    return [*requirements, *find_requirements()] if is_native() else requirements


def find_requirements() -> list[str]:
    """Return the packages that compiling needs: openvino for its headers, and tools that this machine lacks."""
    from ov_ext.native import build

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements: list[str] = [*project["optional-dependencies"]["openvino"]]
    if build.find_cmake() is None:
        requirements.append("cmake>=3.20,<5")
    if build.find_generator() is None:
        requirements.append("ninja>=1.11,<2")
    return requirements


def is_native() -> bool:
    """Return whether the environment asks for the operators in C++."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "no", "yes"):
        raise SystemExit(f"{VARIABLE} must be yes or no, got {value!r}.")
    return value == "yes"


class NativeOperators(BuildHookInterface):  # type: ignore[type-arg]
    """Build hook that adds the library to a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library into the wheel if the environment asks for it and the wheel is not editable."""
        if self.target_name != "wheel" or version != "standard" or not is_native():
            return
        sys.path.insert(0, self.root)  # hatch calls this hook without the functions above
        from ov_ext.native import build

        self._folder = tempfile.TemporaryDirectory(prefix="sliceport-")
        folder = Path(self._folder.name)
        try:
            build.build_into(folder, *build.find_openvino())
        except build.BuildError as error:
            raise SystemExit(f"{VARIABLE}=yes asks for the operators in C++, but {error}") from None
        build_data["force_include"] |= {str(file): f"{LIBRARY_FOLDER}/{file.name}" for file in folder.iterdir()}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the compiled files."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()

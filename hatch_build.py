"""Build backend: hatchling, and the operators in C++ if this machine can compile them.

Such a wheel is of one platform; elsewhere, and with SLICEPORT_NATIVE=no, it is pure Python. A build that fails leaves
the reason in the wheel, which `sliceport doctor` tells; with SLICEPORT_NATIVE=yes it fails the wheel.
"""

from __future__ import annotations

import os
import platform
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
OPENVINO_PLATFORMS = ("linux-x86_64", "linux-aarch64", "win-amd64")
"""Platforms with wheels of openvino. On macOS they exist for one processor only."""
OPENVINO_GLIBC = (2, 28)


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return the requirements of a build. An editable build compiles nothing and uses hatchling's own function."""
    needed = hatchling_build.get_requires_for_build_wheel(config_settings)
    if why_not_native() is None:
        needed += find_requirements()
    return needed


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


def why_not_native() -> str | None:
    """Return why nothing is compiled, or None if the operators are compiled."""
    if os.environ.get(VARIABLE, "") not in ("", "no", "yes"):
        raise SystemExit(f"{VARIABLE} must be yes or no, got {os.environ[VARIABLE]!r}.")
    if os.environ.get(VARIABLE) == "no":
        return f"{VARIABLE}=no"
    from ov_ext.native import build

    if not build.has_compiler():
        return "there is no C++ compiler"
    return (
        None
        if has_openvino()
        else f"openvino has no wheels for Python {platform.python_version()} on {sysconfig.get_platform()}"
    )


def has_openvino() -> bool:
    """Whether openvino surely has wheels for this interpreter and platform: to ask for others fails an installation."""
    if (
        sys.implementation.name != "cpython"
        or sys.version_info >= (3, 14)
        or sysconfig.get_config_var("Py_GIL_DISABLED")
    ):
        return False
    if sys.platform == "darwin":
        return platform.machine() == "arm64"
    if sys.platform == "linux":
        name, version = platform.libc_ver()
        if name != "glibc" or tuple(map(int, version.split(".")[:2])) < OPENVINO_GLIBC:
            return False
    return sysconfig.get_platform() in OPENVINO_PLATFORMS


class NativeOperators(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the library to a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library, and put it into the wheel: not into an editable one."""
        if self.target_name != "wheel" or version != "standard":
            return
        sys.path.insert(0, self.root)  # hatch calls this hook without the functions above
        reason = why_not_native()
        if reason is not None:
            self.app.display_info(f"pure Python: {reason}")
            if os.environ.get(VARIABLE) == "yes":
                raise SystemExit(f"{VARIABLE}=yes asks for the operators in C++, but {reason}.")
            return
        self._made = tempfile.TemporaryDirectory(prefix="sliceport-")
        folder = Path(self._made.name)
        is_built = build_library(folder)
        build_data["force_include"] |= {str(file): f"{LIBRARY_FOLDER}/{file.name}" for file in folder.iterdir()}
        if is_built:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled."""
        if hasattr(self, "_made"):
            self._made.cleanup()


def build_library(folder: Path) -> bool:
    """Compile the library into a folder, or say there why that failed; whether it is there."""
    from ov_ext.native import build

    try:
        openvino, version = build.find_openvino()
        build.put(folder, openvino, version)
    except build.BuildError as error:
        if os.environ.get(VARIABLE) == "yes":
            raise SystemExit(str(error)) from None
        build.write_failure_record(folder, str(error))
        return False
    return True

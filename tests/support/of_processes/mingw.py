"""A compiler of programs for the real DirectML, which this script unpacks into the user's cache.

It lies in a root folder of its own, whose other files are links to those of the installed DirectML, and takes 0.5 GB.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sliceport.device import install, wine_root
from sliceport.device.packages import PackageIndex, find_mirror, unpack
from sliceport.sandbox.place import fill_folder
from sliceport.sandbox.user_cache import user_cache

HOME = wine_root._HOME


def folder() -> Path:
    """Return the root folder, which may not exist."""
    return user_cache() / install.folder().name.replace("directml", "mingw")


def compile_program(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Compile `name`.cpp in the folder of the host program to `name`.exe beside it."""
    return _run(wine_root.compile_command(folder(), name, *options))


def run_program(name: str) -> subprocess.CompletedProcess[str]:
    """Run a program that was compiled."""
    return _run(wine_root._command_inside(folder(), "wine", f"{name}.exe"))


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)


def _fill(root: Path) -> None:
    shutil.copytree(install.folder(), root, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
    mirror = find_mirror()
    assert mirror is not None
    state = root / "apt"
    index = PackageIndex(state, mirror, wine_root._SUITE, wine_root._ABSENT)
    packages = index.download(index.find(wine_root._COMPILER, wine_root._HEADERS))
    for package in packages.values():
        unpack(package, root / "mingw", lambda name: not re.fullmatch(wine_root._LEFT_OUT_OF_COMPILER, name))
    shutil.rmtree(state)


if __name__ == "__main__":
    if not folder().is_dir():
        fill_folder(folder(), _fill, mark="")

"""Running a command in namespaces of its own, with a display and a Wine prefix: all of it ends together."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from sliceport.directml.device.backend import run, source
from sliceport.directml.device.errors import DeviceError

ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
"""What is mounted and started ends with it."""


def launch(root: Path, home: Path, *words: str) -> list[str]:
    """The command that runs a program of `home`, a folder inside `root`; any number of them run side by side."""
    as_root = [] if sys.platform != "win32" and os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [*ALONE, *as_root, "--net", "--ipc", "sh", str(source("launch.sh")), str(root), str(home), *words]


def make_prefix(root: Path, home: Path, folder: Path) -> None:
    """Make a Wine prefix in `home`, which is `folder` as this process sees it.

    Raises:
        DeviceError: Wine does not make one.
    """
    shutil.rmtree(folder / "prefix.new", ignore_errors=True)
    # The server writes the registry when it ends; not every suite has it on the path.
    script = "PATH=$PATH:/usr/lib/x86_64-linux-gnu/wine:/usr/lib/wine; export WINEPREFIX=$PWD/prefix.new; "
    script += "wineboot -i && wineserver -w"
    run(launch(root, home, "sh", "-c", script), "wineboot")
    if not (folder / "prefix.new" / "system.reg").exists():
        raise DeviceError("wineboot left no Wine prefix.")
    (folder / "prefix.new").rename(folder / "prefix")

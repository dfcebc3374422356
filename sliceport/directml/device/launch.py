"""Running a command in its own namespaces, with a display and a Wine prefix, which end with the command."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from sliceport.directml.device.backend import HostBackend, Progress, run, source
from sliceport.directml.device.errors import DeviceError

ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
"""Prefix of commands whose mounts and processes end with them."""


class WineBackend(HostBackend):
    """Base of the backends that run the host program in Wine.

    Attributes:
        root: The root folder that the host program sees.
        inner_home: The folder of the host program inside this root.
    """

    root: Path
    inner_home: Path

    def command(self) -> list[str]:
        """Return the command that runs the host program in its own namespaces."""
        return launch(self.root, self.inner_home, "wine", "host.exe")

    def complete(self, say: Progress) -> None:
        """Create the Wine prefix."""
        if not self.is_complete():
            say("making a Wine prefix")
            make_prefix(self.root, self.inner_home, self.home)

    def is_complete(self) -> bool:
        """Whether the Wine prefix exists."""
        return (self.home / "prefix").is_dir()


def launch(root: Path, home: Path, *words: str) -> list[str]:
    """Return the command that runs a program of `home`, a folder inside `root`. Any number can run at the same time."""
    as_root = [] if sys.platform != "win32" and os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [*ALONE, *as_root, "--net", "--ipc", "sh", str(source("launch.sh")), str(root), str(home), *words]


def make_prefix(root: Path, home: Path, folder: Path) -> None:
    """Create a Wine prefix in `home`, whose path outside `root` is `folder`.

    Raises:
        DeviceError: Wine creates no prefix.
    """
    shutil.rmtree(folder / "prefix.new", ignore_errors=True)
    # wineserver writes the registry when it ends, so wait for it. Some Debian suites do not have it on the path.
    script = "PATH=$PATH:/usr/lib/x86_64-linux-gnu/wine:/usr/lib/wine; export WINEPREFIX=$PWD/prefix.new; "
    script += "wineboot -i && wineserver -w"
    run(launch(root, home, "sh", "-c", script), "wineboot")
    if not (folder / "prefix.new" / "system.reg").exists():
        raise DeviceError("wineboot left no Wine prefix.")
    (folder / "prefix.new").rename(folder / "prefix")

"""The installation of the real DirectML, and the choice of the way to run it on this machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sliceport.directml.device.backend import HostBackend, Progress
from sliceport.directml.device.debian import FULL, SLICING, DebianChroot
from sliceport.directml.device.errors import DeviceError
from sliceport.directml.device.windows import Windows
from sliceport.directml.device.wine import MachineWine
from sliceport.user_cache import user_cache


def backend(*, full: bool = False) -> HostBackend:
    """Return the backend that is installed on this machine, or else one that can be installed.

    Args:
        full: Whether to use the edition with every operator of DirectML; except on Windows it is a Debian root.
    """
    if sys.platform == "win32":
        return Windows()
    if full:
        return DebianChroot(FULL)
    backends = (DebianChroot(SLICING), MachineWine())
    installed = next((one for one in backends if one.is_installed()), None)
    # The machine's own Wine goes first among those that can be installed: it needs a seventh of the disk and no root.
    return installed or next((one for one in reversed(backends) if one.missing() is None), backends[0])


def is_installed(*, full: bool = False) -> bool:
    """Whether DirectML is installed."""
    return backend(full=full).is_installed()


def missing(*, full: bool = False) -> str | None:
    """Return what this machine lacks for an installation, as part of a sentence, or None."""
    if sys.platform not in ("linux", "win32"):
        return f"this platform is {sys.platform}, and only Linux and Windows can have it"
    chosen = backend(full=full)
    lacking = chosen.missing()
    if lacking is None or not isinstance(chosen, DebianChroot) or full:
        return lacking
    return f"{MachineWine().missing()}, and {lacking}"  # either of the two backends would do


def host_command(*, full: bool = False) -> list[str]:
    """Return the command of the host program.

    Raises:
        DeviceError: DirectML is not installed.
    """
    chosen = backend(full=full)
    if not chosen.is_installed():
        option = " --full" if full else ""
        raise DeviceError(f"DirectML is not installed for sliceport here; run: sliceport directml install{option}")
    return chosen.command()


def install(say: Progress = print, *, full: bool = False) -> Path:
    """Install DirectML, or continue an interrupted installation, and return its folder.

    Raises:
        DeviceError: Something is missing on this machine, or a step failed.
    """
    lacking = missing(full=full)
    if lacking is not None:
        raise DeviceError(f"DirectML cannot be installed here: {lacking}.")
    chosen = backend(full=full)
    chosen.install(say)
    return chosen.folder


def uninstall() -> bool:
    """Remove all installations, and return whether there was one.

    Raises:
        DeviceError: A file system is mounted inside one of the folders.
    """
    folders = [DebianChroot(SLICING).folder, DebianChroot(FULL).folder, MachineWine().folder, Windows().folder]
    existing = [folder for folder in dict.fromkeys(folders) if folder.exists()]
    mounts = Path("/proc/self/mounts")
    if mounts.exists():
        mounted = [line.split()[1] for line in mounts.read_text(encoding="utf-8").splitlines()]
        # /dev and /sys of the machine may be mounted inside the root; deleting would go into them.
        if any(place.startswith(f"{folder}/") for folder in existing for place in mounted):
            raise DeviceError(f"something is mounted inside {user_cache()}; unmount it first.")
    for folder in existing:
        shutil.rmtree(folder)
    return bool(existing)

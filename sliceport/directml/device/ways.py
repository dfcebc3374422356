"""Ways to run a program with a folder as its root folder, as the user of this process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sliceport.directml.device.errors import DeviceError
from sliceport.directml.device.programs import run

_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc")
# /proc cannot be mounted anew where a container hides parts of it.
_MOUNT_AND_CHROOT = """
PATH=$PATH:/usr/sbin:/sbin; root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/tmp"
exec chroot "$root" "$@"
"""
# Kill proot, and with it what it traces, if this shell is killed.
_WITH_TEMPORARY_FOLDER = """
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; proot=$1; shift
setpriv --pdeathsig KILL "$proot" -b "$folder:/tmp" "$@"
"""


@dataclass(frozen=True)
class Way:
    """A way to enter a root folder. Every process that is started so ends with the first one.

    Attributes:
        text: Its name.
        words: Maps a root folder to the command that another command is appended to; None if the way does not exist
            on this machine.
    """

    text: str
    words: Callable[[Path], list[str] | None]


def _user_namespaces(root: Path) -> list[str]:
    return [*_NAMESPACES, "--user", "--map-root-user", "sh", "-ec", _MOUNT_AND_CHROOT, "sh", str(root)]


def _bubblewrap(root: Path) -> list[str] | None:
    isolation = ["--unshare-all", "--die-with-parent", "--bind", str(root), "/"]
    mounts = ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"]  # noqa: S108
    return ["bwrap", *isolation, *mounts] if shutil.which("bwrap") else None


def _chroot(root: Path) -> list[str] | None:
    is_root = sys.platform != "win32" and os.geteuid() == 0
    return [*_NAMESPACES, "sh", "-ec", _MOUNT_AND_CHROOT, "sh", str(root)] if is_root else None


def _proot(root: Path) -> list[str]:
    loader = [f"{root}/lib64/ld-linux-x86-64.so.2", "--library-path", f"{root}/usr/lib/x86_64-linux-gnu"]
    shared = [word for name in ("/dev", "/proc", "/sys") for word in ("-b", name)]
    options = ["--kill-on-exit", "-r", str(root), "-w", "/", *shared]
    return ["sh", "-ec", _WITH_TEMPORARY_FOLDER, "sh", *loader, f"{root}/usr/bin/proot", *options]


WAYS = (
    Way("user namespaces", _user_namespaces),
    Way("bubblewrap", _bubblewrap),
    Way("namespaces as root", _chroot),
    Way("proot", _proot),
)
"""The ways, best first. proot traces every system call, which takes time, but nothing forbids it."""


@cache
def choose(root: Path) -> tuple[Way | None, dict[str, str]]:
    """Return the first way that works here, or None, and the reasons against those before it, by their names."""
    refused = {}
    for way in WAYS:
        words = way.words(root)
        if words is None:
            continue
        try:
            run([*words, "/bin/true"], words[0])
        except DeviceError as error:
            refused[way.text] = str(error).rstrip(".")
        else:
            return way, refused
    return None, refused


def enter(root: Path, *words: str) -> list[str]:
    """Return the command that runs a program with `root` as its root folder. Any number can run at the same time.

    Raises:
        DeviceError: Every way is refused.
    """
    way, refused = choose(root)
    if way is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise DeviceError(f"no program can be run in the root folder '{root}' ({reasons}).")
    return [*(way.words(root) or ()), *words]

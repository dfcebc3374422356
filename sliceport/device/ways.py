"""Ways to run a program with a folder as its root folder, with the rights of this process's user."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sliceport.device.errors import DeviceError
from sliceport.device.programs import host_file, run

_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc")


def _user_namespaces(root: Path) -> list[str]:
    """Return a command that enters a root folder in new namespaces, where this user has the rights of root."""
    return [*_NAMESPACES, "--user", "--map-root-user", "sh", str(host_file("enter.sh")), "mount", str(root)]


def _bubblewrap(root: Path) -> list[str]:
    """Return a command that enters a root folder with bwrap, or [] if bwrap is not installed."""
    isolation = ["--unshare-all", "--die-with-parent", "--bind", str(root), "/"]
    mounts = ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"]  # noqa: S108
    return ["bwrap", *isolation, *mounts] if shutil.which("bwrap") else []


def _namespaces_as_root(root: Path) -> list[str]:
    """Return a command that enters a root folder in new namespaces, or [] if this process is not root."""
    is_root = sys.platform != "win32" and os.geteuid() == 0  # Windows has no geteuid
    return [*_NAMESPACES, "sh", str(host_file("enter.sh")), "mount", str(root)] if is_root else []


def _proot(root: Path) -> list[str]:
    """Return a command that enters a root folder with the proot that is installed in it."""
    return ["sh", str(host_file("enter.sh")), "proot", str(root)]


WAYS: dict[str, Callable[[Path], list[str]]] = {
    "user namespaces": _user_namespaces,
    "bubblewrap": _bubblewrap,
    "namespaces as root": _namespaces_as_root,
    "proot": _proot,  # is slow because it traces every system call, but works even in a container without privileges
}
"""The ways, best first. Each maps a root folder to a command, or to [] if this machine lacks the way. The program and
its arguments are appended to the command. All processes of a program end with its first process."""


@cache  # because each trial starts a process
def choose(root: Path) -> tuple[str | None, dict[str, str]]:
    """Return the name of the first way that works here, or None, and the errors of the ways that failed."""
    reasons = {}
    for name, way in WAYS.items():
        prefix = way(root)
        if not prefix:  # this machine lacks the way
            continue
        try:
            run([*prefix, "/bin/true"], prefix[0])
        except DeviceError as error:
            reasons[name] = str(error).rstrip(".")
        else:
            return name, reasons
    return None, reasons


def command(root: Path, *words: str) -> list[str]:
    """Return the command that runs a program with `root` as its root folder. `words` are the program and its arguments.

    Any number of programs can run at the same time.

    Raises:
        DeviceError: No way works on this machine.
    """
    chosen, refused = choose(root)
    if chosen is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise DeviceError(f"no program can be run in the root folder '{root}' ({reasons}).")
    return [*WAYS[chosen](root), *words]

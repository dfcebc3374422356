"""Names of scratch files and folders. Each has the id of its process, so that other processes can remove leftovers."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


def new_name() -> str:
    """Return a new name for a scratch file or folder, with the machine and the id of this process in it."""
    return f"{_machine_name()}-{os.getpid()}-{os.urandom(8).hex()}"


@cache
def _machine_name() -> str:
    """Return a name for this machine and the PID namespace of this process. Each container has its own namespace."""
    import socket  # takes a while, and most commands write nothing

    parts = [socket.gethostname()]
    with suppress(OSError):  # machines that share a folder may share a host name, such as localhost
        parts.append(Path("/etc/machine-id").read_text(encoding="ascii")[:8].strip())
    with suppress(OSError):
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return "-".join(filter(None, parts))


def remove_abandoned(folder: Path, prefix: str = "") -> None:
    """Remove scratch files and folders from `folder` if a process of this machine made them and has ended.

    Their names begin with `prefix` and a name that `new_name` returned.

    Raises:
        OSError: The folder cannot be listed.
    """
    for entry in os.scandir(folder):
        if entry.name.startswith(prefix) and is_abandoned(entry.name.removeprefix(prefix)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry.path)


def is_abandoned(name: str) -> bool:
    """Return whether the process that got a name from `new_name` ran on this machine and has ended."""
    machine, _, process = name.rpartition("-")[0].rpartition("-")  # MACHINE-PROCESS-RANDOM
    if machine != _machine_name() or not process.isdecimal():
        return False
    if sys.platform == "win32":
        from sliceport.sandbox.windows import has_ended

        return has_ended(int(process))
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # the process of another user, or a number that is not the id of a process
        pass
    return False

"""Stores for the results of a run: a folder, or a URL of fsspec."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

from sliceport.batch.names import is_url
from sliceport.errors import UsageError
from sliceport.sandbox.place import move

SCRATCH = "scratch"
"""The folder in which everything is written before it gets its name."""
FOLDERS = ("results", "outputs", "runs", SCRATCH)
"""All folders that a run has."""
_MAX_TRIES = 100
"""Number of attempts at a step that other processes may disturb."""


class Store(Protocol):
    """A place for files by name, `/` between folders. All that is written is there whole or not at all.

    Each method raises a UsageError if the store cannot be read or written.

    Attributes:
        root: The folder or URL.
    """

    root: str

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it is missing."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, or replace it."""

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the files in a folder, sorted. A missing folder has none."""

    def local_path(self, name: str) -> Path | None:
        """Return the path of a file that can be written in place, or None for a store at a URL."""

    def put_file(self, name: str, local: Path) -> None:
        """Move or copy a file here, in place of one that there may be."""

    def put_folder(self, name: str, local: Path) -> None:
        """Move or copy a folder here, in place of one that there may be."""

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""

    def new_scratch(self) -> Path:
        """Make a local folder for `put_file` and `put_folder`; `remove_scratch` removes it."""

    def remove_scratch(self, folder: Path) -> None:
        """Remove such a folder."""


class Folder:
    """A folder of the file system, which several machines may share."""

    def __init__(self, root: str) -> None:
        self.root = root

    def read(self, name: str) -> bytes | None:
        """Implement `Store.read`."""
        try:
            return Path(self.root, name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failure("read", name, error) from error

    def write(self, name: str, data: bytes) -> None:
        """Implement `Store.write`."""
        beside = Path(self.root, SCRATCH, f"{own_name()}.tmp")
        try:
            self._make_folder(beside)
            beside.write_bytes(data)
            self.put_file(name, beside)
        except OSError as error:
            raise self._failure("written", name, error) from error
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)

    def names(self, prefix: str) -> Iterator[str]:
        """Implement `Store.names`."""
        try:
            found = sorted(entry.name for entry in os.scandir(Path(self.root, prefix)) if entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._failure("listed", prefix, error) from error
        yield from (f"{prefix}/{name}" for name in found)

    def local_path(self, name: str) -> Path:
        """Implement `Store.local_path`."""
        return Path(self.root, name)

    def put_file(self, name: str, local: Path) -> None:
        """Implement `Store.put_file`; the file has to lie in the scratch folder."""
        target = Path(self.root, name)
        try:
            self._make_folder(target)
            move(local, target)
        except OSError as error:
            raise self._failure("written", name, error) from error

    def put_folder(self, name: str, local: Path) -> None:
        """Implement `Store.put_folder`; the folder has to lie in the scratch folder."""
        target = Path(self.root, name)
        try:
            self._make_folder(target)
            for file in sorted(local.rglob("*")):
                if file.is_file():
                    _synchronize(file)
            for i in range(_MAX_TRIES):
                try:
                    local.rename(target)
                    return
                except OSError:  # there is one; whoever made it made the same, or it is damaged
                    if not os.path.lexists(target) and (i + 1 == _MAX_TRIES or not local.exists()):
                        raise
                with suppress(OSError):  # another process was faster
                    target.rename(local.with_name(f"{local.name}.old{i}"))
                if sys.platform == "win32":
                    time.sleep(0.02)  # others may have a file of one of the two open
        except OSError as error:
            raise self._failure("written", name, error) from error

    def has(self, name: str) -> bool:
        """Implement `Store.has`."""
        return Path(self.root, name).exists()

    def new_scratch(self) -> Path:
        """Implement `Store.new_scratch`. What processes of this machine left there that have ended is removed."""
        folder = Path(self.root, SCRATCH, own_name())
        try:
            for left in reversed(range(_MAX_TRIES)):
                try:
                    folder.mkdir(parents=True)
                    break
                except FileNotFoundError:  # another process has just removed the folder around it
                    if not left:
                        raise
            remove_abandoned(folder.parent)
        except OSError as error:
            raise self._failure("written", SCRATCH, error) from error
        return folder

    def remove_scratch(self, folder: Path) -> None:
        """Implement `Store.remove_scratch`."""
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            remove_abandoned(folder.parent)  # of processes of this run that were ended
            folder.parent.rmdir()  # unless others write here, too

    def _make_folder(self, file: Path) -> None:
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)

    def _failure(self, what: str, name: str, error: OSError) -> UsageError:
        return UsageError(f"'{self.root}/{name}' cannot be {what} ({error.strerror or error}).")


def _synchronize(file: Path) -> None:
    """Let a file reach the disk: a result that names it must not outlive it."""
    with open(file, "r+b") as opened:  # Windows synchronizes no file that is open for reading alone
        os.fsync(opened.fileno())


def own_name() -> str:
    """Return a new name for a scratch folder or file, with the machine and the id of this process in it."""
    return f"{_own_machine()}-{os.getpid()}-{secrets.token_hex(8)}"


@cache
def _own_machine() -> str:
    """Return the name of this machine and of its namespace of process ids; each container has its own."""
    try:
        numbers = f"{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        numbers = "0"
    return f"{socket.gethostname()}-{numbers}"


def remove_abandoned(scratch: Path) -> None:
    """Remove the scratch folders and files of processes of this machine that have ended."""
    for entry in os.scandir(scratch):
        if is_abandoned(entry.name):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry.path)


def is_abandoned(name: str) -> bool:
    """Return whether a scratch folder or file belongs to a process of this machine that has ended."""
    machine, _, rest = name.rpartition("-")[0].rpartition("-")
    if machine != _own_machine() or not rest.isdecimal():
        return False
    if sys.platform == "win32":
        from sliceport.sandbox.windows import has_ended

        return has_ended(int(rest))
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def open_store(root: str) -> Store:
    """Open the store at a folder or URL. A folder is made when something is written.

    Raises:
        UsageError: The folder is a file, or it has no name.
        MissingExtra: The root is a URL, and fsspec is not installed.
    """
    if is_url(root):
        from sliceport.batch.remote_store import RemoteStore

        return RemoteStore(root)
    if not root or "\0" in root:
        raise UsageError(f"output {root!r} is not the name of a folder.")
    if os.path.lexists(root) and not os.path.isdir(root):
        raise UsageError(f"output '{root}' is not a folder.")
    return Folder(os.path.abspath(root))

"""Results at URLs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sliceport.batch.file_systems import Entry, attempt, failure, open_file_system, to_url
from sliceport.batch.store import SCRATCH, is_abandoned, own_name, remove_abandoned
from sliceport.errors import UsageError

_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "oci", "oss", "tos"}
"""Protocols that show a file only when all of it is there."""


class RemoteStore:
    """A place for results at a URL; see `sliceport.batch.store.Store`.

    Args:
        root: The URL.

    Raises:
        UsageError: The protocol is not known.
        MissingExtra: A package for such URLs is not installed.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") if not root.endswith("://") else root
        open_file_system(self.root)

    def read(self, name: str) -> bytes | None:
        """Implement `Store.read`."""
        fs, path, url = self._at(name)
        try:
            data: bytes = attempt("read", url, lambda: fs.cat_file(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Implement `Store.write`."""
        self._put(name, lambda fs, target: fs.pipe_file(target, data))

    def names(self, prefix: str) -> Iterator[str]:
        """Implement `Store.names`."""
        fs, path, url = self._at(prefix)
        fs.invalidate_cache()
        try:
            entries: list[Entry] = attempt("listed", url, lambda: fs.ls(path, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return
        files = sorted(entry["name"].rpartition("/")[2] for entry in entries if entry["type"] == "file")
        yield from (f"{prefix}/{name}" for name in files if name)

    def local_path(self, name: str) -> None:
        """Implement `Store.local_path`."""

    def put_file(self, name: str, local: Path) -> None:
        """Implement `Store.put_file`."""
        self._put(name, lambda fs, target: fs.put_file(str(local), target))

    def put_folder(self, name: str, local: Path) -> None:
        """Implement `Store.put_folder`: file by file, so the result that names the folder is written after it."""
        fs, path, url = self._at(name)
        fs.invalidate_cache()
        try:
            there = attempt("listed", url, lambda: fs.find(path))
        except (FileNotFoundError, NotADirectoryError):
            there = []
        written = set()
        for file in sorted(each for each in local.rglob("*") if each.is_file()):
            beside = file.relative_to(local).as_posix()
            self.put_file(f"{name}/{beside}", file)
            written.add(f"{path}/{beside}")
        for other in set(there) - written:
            with suppress(FileNotFoundError):
                attempt("removed", url, lambda other=other: fs.rm_file(other))  # type: ignore[misc]

    def has(self, name: str) -> bool:
        """Implement `Store.has`."""
        fs, path, url = self._at(name)
        fs.invalidate_cache()
        return bool(attempt("read", url, lambda: fs.exists(path)))

    def new_scratch(self) -> Path:
        """Implement `Store.new_scratch`."""
        folder = Path(tempfile.gettempdir(), f"sliceport-{SCRATCH}", own_name())
        try:
            folder.mkdir(parents=True)
            remove_abandoned(folder.parent)
        except OSError as error:
            raise UsageError(f"'{folder}' cannot be written ({error.strerror or error}).") from error
        self._remove_abandoned()
        return folder

    def remove_scratch(self, folder: Path) -> None:
        """Implement `Store.remove_scratch`."""
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()  # fails if others write there, too
        self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        """Remove the files of processes of this machine that were killed while they wrote, and the empty folder."""
        with suppress(UsageError):
            for name in self.names(SCRATCH):
                if is_abandoned(name.rpartition("/")[2]):
                    fs, path, url = self._at(name)
                    with suppress(FileNotFoundError):
                        attempt("removed", url, lambda fs=fs, path=path: fs.rm_file(path))  # type: ignore[misc]
            fs, path, _ = self._at(SCRATCH)
            with suppress(Exception):  # object stores have no folders, and others may write here, too
                fs.rmdir(path)

    def _at(self, name: str) -> tuple[Any, str, str]:
        """Return the file system, which is another one in each process, the path of a file there, and its URL."""
        fs, root = open_file_system(self.root)
        path = f"{root.rstrip('/')}/{name}"
        return fs, path, to_url(self.root, path)

    def _put(self, name: str, write: Callable[[Any, str], Any]) -> None:
        """Write a file whole or not at all: beside and moved, unless the file system is so itself."""
        fs, path, url = self._at(name)
        protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
        try:
            if not _OBJECT_STORES.isdisjoint(protocols):
                attempt("written", url, lambda: write(fs, path))
                return
            temporary = f"{self._at(SCRATCH)[1]}/{own_name()}.tmp"
            attempt("written", url, lambda: _write_via_temporary_file(fs, path, temporary, write))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise failure("written", url, error) from error


def _write_via_temporary_file(fs: Any, path: str, temporary: str, write: Callable[[Any, str], Any]) -> None:
    """Write to a temporary file, then rename it."""
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.makedirs(temporary.rpartition("/")[0], exist_ok=True)
    try:
        write(fs, temporary)
        try:
            fs.mv(temporary, path)
        except OSError:  # Some servers refuse to rename onto an existing file.
            if not fs.exists(path):
                raise
            fs.rm_file(path)
            fs.mv(temporary, path)
    except BaseException:
        with suppress(Exception):
            fs.rm_file(temporary)
        raise

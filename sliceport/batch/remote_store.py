"""Results at URLs."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sliceport.batch.file_systems import (
    Entry,
    attempt,
    failure,
    open_file_system,
    path_after,
    protocols,
    time_of_change,
    to_url,
)

_BESIDE = ".sliceport-"
"""How files begin that are on their way to their names."""
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "oci", "oss", "tos"}
"""Protocols that show a file only when all of it is there."""


class RemoteStore:
    """A place for results at a URL; see `sliceport.batch.store.Store`.

    Args:
        root: The URL.

    Raises:
        UsageError: Its protocol is not known.
        MissingExtra: A package for such URLs is not installed.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") if not root.endswith("://") else root
        open_file_system(self.root)

    def read(self, name: str) -> bytes | None:
        """See `Store.read`."""
        fs, path = self._at(name)
        try:
            found: bytes = attempt("read", self._url(name), lambda: fs.cat_file(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found

    def write(self, name: str, data: bytes) -> None:
        """See `Store.write`."""
        fs, path = self._at(name)
        self._put(fs, name, path, lambda target: fs.pipe_file(target, data))

    def names(self, prefix: str) -> Iterator[str]:
        """See `Store.names`."""
        fs, path = self._at(prefix)
        fs.invalidate_cache()
        try:
            entries: list[Entry] = attempt("listed", self._url(prefix), lambda: fs.ls(path, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return
        files = sorted(entry["name"].rpartition("/")[2] for entry in entries if entry["type"] == "file")
        yield from (f"{prefix}/{name}" for name in files if name and not name.startswith(_BESIDE))

    def local_path(self, name: str) -> None:
        """See `Store.local_path`."""

    def put_file(self, name: str, local: Path) -> None:
        """See `Store.put_file`."""
        fs, path = self._at(name)
        self._put(fs, name, path, lambda target: fs.put_file(str(local), target))

    def put_folder(self, name: str, local: Path) -> None:
        """See `Store.put_folder`: file by file, so whatever names the folder is written after it."""
        fs, path = self._at(name)
        fs.invalidate_cache()
        try:
            there = attempt("listed", self._url(name), lambda: fs.find(path))
        except (FileNotFoundError, NotADirectoryError):
            there = []
        written = set()
        for file in sorted(each for each in local.rglob("*") if each.is_file()):
            beside = file.relative_to(local).as_posix()
            self.put_file(f"{name}/{beside}", file)
            written.add(f"{path}/{beside}")
        for other in set(there) - written:
            with suppress(FileNotFoundError):
                attempt("removed", self._url(name), lambda other=other: fs.rm_file(other))  # type: ignore[misc]

    def changed(self, name: str) -> float:
        """See `Store.changed`."""
        fs, path = self._at(name)
        fs.invalidate_cache()
        try:
            return time_of_change(fs, self._url(name), path)
        except (FileNotFoundError, NotADirectoryError):
            return 0.0

    def new_scratch(self) -> Path:
        """See `Store.new_scratch`."""
        return Path(tempfile.mkdtemp(prefix="sliceport-"))

    def remove_scratch(self, folder: Path) -> None:
        """See `Store.remove_scratch`."""
        shutil.rmtree(folder, ignore_errors=True)

    def _at(self, name: str) -> tuple[Any, str]:
        """The file system, which is another in each process, and the path of a file there."""
        fs, path = open_file_system(self.root)
        return fs, f"{path.rstrip('/')}/{name}"

    def _url(self, name: str) -> str:
        return to_url(self.root, f"{path_after(self.root).rstrip('/')}/{name}")

    def _put(self, fs: Any, name: str, path: str, write: Callable[[str], Any]) -> None:
        """Write a file whole or not at all: beside and moved, unless the file system is so itself."""
        url = self._url(name)
        try:
            if not _OBJECT_STORES.isdisjoint(protocols(fs)):
                attempt("written", url, lambda: write(path))
                return
            attempt("written", url, lambda: _write_beside(fs, path, write))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise failure("written", url, error) from None


def _write_beside(fs: Any, path: str, write: Callable[[str], Any]) -> None:
    folder = path.rpartition("/")[0]
    beside = f"{folder}/{_BESIDE}{secrets.token_hex(6)}"
    fs.makedirs(folder, exist_ok=True)
    try:
        write(beside)
        try:
            fs.mv(beside, path)
        except OSError:  # servers that do not replace a file by renaming another
            if not fs.exists(path):
                raise
            fs.rm_file(path)
            fs.mv(beside, path)
    except BaseException:
        with suppress(Exception):
            fs.rm_file(beside)
        raise

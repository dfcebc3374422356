"""Results at URLs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sliceport.batch.file_systems import attempt, list_tree, make_error, open_file_system, to_url
from sliceport.batch.store import SCRATCH, Store
from sliceport.errors import UsageError
from sliceport.sandbox.scratch import is_abandoned, new_name

_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "oci", "oss", "tos"}
"""Protocols of stores in which a file is visible only after all of it has been written."""


class RemoteStore(Store):
    """A store of results at a URL.

    Raises:
        UsageError: The protocol is not known.
        MissingExtra: A package for such URLs is not installed.
    """

    def __init__(self, root: str) -> None:
        self.root = root if root.endswith("://") else root.rstrip("/")
        open_file_system(self.root)  # raises an error before the run

    def read(self, name: str) -> bytes | None:
        fs, path, url = self._open_and_locate(name)
        try:
            data: bytes = attempt("read", url, lambda: fs.cat_file(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return data

    def has(self, name: str) -> bool:
        fs, path, url = self._open_and_locate(name)
        fs.invalidate_cache()  # fsspec would return old entries
        return bool(attempt("read", url, lambda: fs.exists(path)))

    def names(self, folder: str) -> list[str]:
        fs, path, url = self._open_and_locate(folder)
        fs.invalidate_cache()  # fsspec would return old entries
        try:
            files = attempt("listed", url, lambda: list_tree(fs, path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(f"{folder}{file.removeprefix(path)}" for file in files)

    def write(self, name: str, data: bytes) -> None:
        self._put(name, lambda fs, target: fs.pipe_file(target, data))

    def put_file(self, name: str, local: Path) -> None:
        self._put(name, lambda fs, target: fs.put_file(str(local), target))

    def remove(self, name: str) -> None:
        fs, path, url = self._open_and_locate(name)
        with suppress(FileNotFoundError):
            attempt("removed", url, lambda: fs.rm_file(path))

    def append(self, name: str, data: bytes) -> bool:  # noqa: ARG002 - object stores write whole files
        return False

    def scratch_folder(self) -> Path:
        return Path(tempfile.gettempdir(), f"sliceport-{SCRATCH}")

    def clean_up(self) -> None:
        """Try to remove files in `SCRATCH` whose process on this machine has ended, and the folder if it is empty."""
        with suppress(UsageError):
            names = self.names(SCRATCH)
            abandoned = [name for name in names if is_abandoned(name.rpartition("/")[2])]
            for name in abandoned:
                self.remove(name)
            fs, path, _ = self._open_and_locate(SCRATCH)
            if len(abandoned) == len(names):  # `rmdir` of HDFS would also remove the files of other runs
                with suppress(Exception):  # object stores have no folders
                    fs.rmdir(path)

    def _open_and_locate(self, name: str) -> tuple[Any, str, str]:
        """Return the file system, and the path and URL of a file. Each process must open the file system for itself."""
        fs, root = open_file_system(self.root)
        path = f"{root.rstrip('/')}/{name}"
        return fs, path, to_url(self.root, path)

    def _put(self, name: str, write: Callable[[Any, str], Any]) -> None:
        """Write a file, through a temporary file unless the store shows only whole files."""
        fs, path, url = self._open_and_locate(name)
        protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
        temporary = self._open_and_locate(f"{SCRATCH}/{new_name()}.tmp")[1]
        try:
            if _OBJECT_STORES.isdisjoint(protocols):
                attempt("written", url, lambda: _write_via_temporary_file(fs, path, temporary, write))
            else:
                attempt("written", url, lambda: write(fs, path))
        except (FileNotFoundError, NotADirectoryError) as error:  # `attempt` lets them pass, because `read` needs them
            raise make_error("written", url, error) from error


def _write_via_temporary_file(fs: Any, path: str, temporary: str, write: Callable[[Any, str], Any]) -> None:
    """Write to a temporary file, then rename it. If the server refuses to replace a file, remove the old file first."""
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.makedirs(temporary.rpartition("/")[0], exist_ok=True)
    try:
        write(fs, temporary)
        try:
            fs.mv(temporary, path)
        except OSError:
            if not fs.exists(path):
                raise
            fs.rm_file(path)
            fs.mv(temporary, path)
    except BaseException:
        with suppress(Exception):
            fs.rm_file(temporary)
        raise

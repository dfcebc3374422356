"""Stores for the results of a run: a folder, or a URL of fsspec."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from sliceport.batch.file_systems import attempt, list_tree, make_error, open_file_system, to_url
from sliceport.batch.names import is_url
from sliceport.errors import UsageError
from sliceport.sandbox.place import move
from sliceport.sandbox.scratch import is_abandoned, new_name, remove_abandoned

SCRATCH = "scratch"
"""The folder in which everything is written before it gets its name."""
FOLDERS = ("results", "outputs", "runs", SCRATCH)
"""All folders that runs make in a store."""
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "oci", "oss", "tos"}
"""Protocols of stores in which a file is visible only after all of it has been written."""
_MAX_TRIES = 100
"""Number of attempts to make a folder while other processes remove the empty folder around it."""


class Store(Protocol):
    """Files by name, with `/` between folders. Each file is there whole or not at all, unless `append` writes it.

    Each method raises a UsageError if the store cannot be read or written.

    Attributes:
        root: The folder or URL.
        scratch: The local folder in which new files are written before they move into the store.
    """

    root: str
    scratch: Path

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it is missing."""

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder of this name."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of all files below a folder, with `folder/` in front; [] if the folder is missing."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, or replace it."""

    def put_file(self, name: str, local: Path) -> None:
        """Move or copy a local file into the store, and replace any file of the same name."""

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""

    def append(self, name: str, data: bytes) -> bool:
        """Append to a file and return True, or write nothing and return False if this kind of store cannot append.

        While the file is written, readers may see only a part of the data.
        """

    def put_folder(self, name: str, local: Path) -> None:
        """Move or copy the files of a local folder into the store, and remove all other files from the folder `name`.

        Two processes may put the same files at once. The files appear one after another, so readers must wait until the
        result that names the folder exists.
        """
        files = {f"{name}/{path.relative_to(local).as_posix()}": path for path in local.rglob("*") if path.is_file()}
        for target, path in sorted(files.items()):
            self.put_file(target, path)
        for target in set(self.names(name)) - files.keys():
            self.remove(target)

    def new_scratch(self) -> Path:
        """Make a local folder for temporary files. Also remove the folders of killed processes of this machine."""
        folder = self.scratch / new_name()
        try:
            _make_folder(folder)
            remove_abandoned(folder.parent)
        except OSError as error:
            raise UsageError(f"'{folder.parent}' cannot be written ({error.strerror or error}).") from error
        self.clean_up()
        return folder

    def remove_scratch(self, folder: Path) -> None:
        """Remove a folder that `new_scratch` made, scratch of killed processes, and the parent if it is empty."""
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            remove_abandoned(folder.parent)  # temporary files of killed processes of this machine
            folder.parent.rmdir()  # fails if the folder has files of other runs
        self.clean_up()

    def clean_up(self) -> None:
        """Remove the temporary files that killed processes left outside `scratch`."""
        return  # some stores never have such files


class Folder(Store):
    """A folder of the file system, which several machines may share."""

    def __init__(self, root: str) -> None:
        self.root, self.scratch = root, Path(root, SCRATCH)

    def read(self, name: str) -> bytes | None:
        with self._translate_errors("read", name), suppress(FileNotFoundError, NotADirectoryError):
            return Path(self.root, name).read_bytes()
        return None

    def has(self, name: str) -> bool:
        with self._translate_errors("read", name):
            return Path(self.root, name).exists()

    def names(self, folder: str) -> list[str]:
        with self._translate_errors("listed", folder), suppress(FileNotFoundError, NotADirectoryError):
            return sorted(f"{folder}/{file}" for file in _list_files(Path(self.root, folder)))
        return []

    def write(self, name: str, data: bytes) -> None:
        temporary = self.scratch / f"{new_name()}.tmp"
        try:
            with self._translate_errors("written", name):
                _make_folder(temporary.parent)
                temporary.write_bytes(data)
                self._move(temporary, name)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def put_file(self, name: str, local: Path) -> None:
        """Move a file from the scratch folder into the store, and call it `name`."""
        with self._translate_errors("written", name):
            # After a loss of power, a stored result must not name a file whose content is lost.
            with open(local, "r+b") as file:  # Windows cannot synchronize a file that is open only for reading
                os.fsync(file.fileno())
            self._move(local, name)

    def remove(self, name: str) -> None:
        with self._translate_errors("removed", name):
            Path(self.root, name).unlink(missing_ok=True)

    def append(self, name: str, data: bytes) -> bool:
        path = Path(self.root, name)
        with self._translate_errors("written", name):
            _make_folder(path.parent)
            with open(path, "ab", buffering=0) as file:
                end = file.tell()
                try:
                    while data:
                        data = data[file.write(data) :]
                except OSError:
                    file.truncate(end)  # a part of a line would damage the line after it
                    raise
        return True

    def _move(self, local: Path, name: str) -> None:
        target = Path(self.root, name)
        _make_folder(target.parent)
        move(local, target)

    @contextmanager
    def _translate_errors(self, participle: str, name: str) -> Iterator[None]:
        """Raise an OSError as a UsageError. `participle` names the action in the message, such as `written`."""
        try:
            yield
        except OSError as error:
            raise UsageError(f"'{self.root}/{name}' cannot be {participle} ({error.strerror or error}).") from error


def _list_files(folder: Path) -> Iterator[str]:
    """Yield the paths of the files in a folder and its subfolders, relative to the folder and with `/`.

    Raises:
        OSError: A folder cannot be read.
    """

    def fail(error: OSError) -> None:
        raise error

    for base, _, files in os.walk(folder, onerror=fail):
        yield from (Path(base, name).relative_to(folder).as_posix() for name in files)


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents. Try again if another process removes one of these folders meanwhile."""
    for tries in range(1, _MAX_TRIES + 1):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return
        except (FileExistsError, FileNotFoundError):  # the folder or a parent was removed during `mkdir`
            if tries == _MAX_TRIES:
                raise


class RemoteStore(Store):
    """A store of results at a URL.

    Raises:
        UsageError: The protocol is not known.
        MissingExtra: A package for such URLs is not installed.
    """

    def __init__(self, root: str) -> None:
        self.root = root if root.endswith("://") else root.rstrip("/")
        self.scratch = Path(tempfile.gettempdir(), f"sliceport-{SCRATCH}")
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


def open_store(root: str) -> Store:
    """Open the store at a folder or URL. A missing folder is made later, by the first write.

    Raises:
        UsageError: `root` is a file, is empty or contains NUL, or the protocol of its URL is not known.
        MissingExtra: `root` is a URL, and a package for such URLs is not installed.
    """
    if is_url(root):
        return RemoteStore(root)
    if not root or "\0" in root:
        raise UsageError(f"{root!r} is not the name of a folder.")
    if os.path.lexists(root) and not os.path.isdir(root):
        raise UsageError(f"'{root}' is not a folder.")
    return Folder(os.path.abspath(root))

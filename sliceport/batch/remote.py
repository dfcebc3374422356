"""Models and results at URLs, by fsspec: object stores, hubs, servers, archives."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from sliceport.batch.sources import is_url
from sliceport.errors import MissingExtra, UsageError
from sliceport.formats import ManyFiles, format_of

__all__ = ["RemoteStore", "download", "find_models", "is_url"]

T = TypeVar("T")
Entry = dict[str, Any]

_MAGIC = re.compile(r"[*?\[]")
_HTTP = re.compile(r"https?://")
_DELAYS = (0.2, 1.0, 3.0)
"""Seconds to wait before something that failed on the way is tried again."""
_ON_THE_WAY = {"ClientConnectionError", "ClientPayloadError", "HTTPClientError", "ConnectionError", "IncompleteRead"}
"""What libraries of networks call their errors on the way that are no errors of the operating system."""
_NOT_REACHED = {"EndpointConnectionError", "ConnectTimeoutError"}
"""What botocore calls it when it has tried often enough."""
_FINAL = {
    errno.EACCES,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "oci", "oss", "tos"}
"""Protocols that show a file only when all of it is there."""


def find_models(url: str, suffixes: Sequence[str], leave_out: Sequence[str] = ()) -> Iterator[str]:
    """The models at a URL of a file, a folder or a glob, as URLs, sorted: see `sliceport.batch.sources.expand`.

    Links to folders are not followed.

    Args:
        url: The URL.
        suffixes: How the names of models end.
        leave_out: URLs of folders that are not entered.

    Raises:
        UsageError: There is nothing, or it cannot be read.
        MissingExtra: A package for such URLs is not installed.
    """
    fs, path = _open(url)
    is_http = _HTTP.match(path) is not None
    left_out = {folder.rstrip("/") for other, folder in map(_open, leave_out) if other == fs}
    if _MAGIC.search(path.replace("?", "") if is_http else path):
        yield from _glob(fs, url, path, tuple(suffixes), left_out)
        return
    try:
        info: Entry = _try("read", url, lambda: fs.info(path))
    except FileNotFoundError:
        raise UsageError(f"source {url!r} is not there.") from None
    if info["type"] == "directory" or (is_http and path.endswith("/")):
        yield from _walk(fs, url, path, tuple(suffixes), left_out)
    else:
        yield url


def _glob(fs: Any, url: str, pattern: str, suffixes: tuple[str, ...], left_out: set[str]) -> Iterator[str]:
    found: dict[str, Entry] = _try("listed", url, lambda: fs.glob(pattern, detail=True))
    ends = ("",) if pattern[-1] not in "*?]" else suffixes
    fixed = len(pattern[: _MAGIC.search(pattern).start()].rpartition("/")[0])  # type: ignore[union-attr]
    finds_hidden = "/." in pattern
    for path in sorted(found):
        is_hidden = any(name.startswith(".") for name in path[fixed:].split("/")) and not finds_hidden
        is_left_out = any(path.startswith(f"{folder}/") for folder in left_out)
        if found[path]["type"] == "file" and path.endswith(ends) and not is_hidden and not is_left_out:
            yield _to_url(url, path)


def _walk(fs: Any, url: str, root: str, suffixes: tuple[str, ...], left_out: set[str]) -> Iterator[str]:
    """The models in a folder and its folders, in the order of their names."""
    waiting = [_list(fs, url, root)]
    while waiting:
        if not waiting[-1]:
            waiting.pop()
            continue
        path, is_folder = waiting[-1].pop()
        if is_folder:
            if path not in left_out:
                waiting.append(_list(fs, url, path))
        elif path.endswith(suffixes):
            yield _to_url(url, path)


def _list(fs: Any, url: str, folder: str) -> list[tuple[str, bool]]:
    """The paths in a folder, the last first, and whether each is a folder; without hidden ones."""
    try:
        entries: list[Entry] = _try("listed", url, lambda: fs.ls(folder, detail=True))
    except FileNotFoundError:
        return []
    found = []
    for entry in entries:
        path = entry["name"].rstrip("/")
        is_folder = entry["type"] == "directory"
        is_hidden = path.rpartition("/")[2].startswith(".") or path == folder.rstrip("/")
        if not is_hidden and not (is_folder and entry.get("islink")):
            found.append((f"{path}/" if is_folder else path, is_folder))
    fs.invalidate_cache()  # which holds much of every file
    return [(path.rstrip("/"), is_folder) for path, is_folder in sorted(found, reverse=True)]


def download(
    url: str, folder: str | os.PathLike[str], files_beside: Callable[[str], Iterable[str]] | None = None
) -> str:
    """Copy a model, and the other files that it consists of, into a folder, with their times of change.

    Where a server tells no time of change, the time stands for whatever else tells one state of a file from another.
    What is not there beside the model is left out.

    Args:
        url: The model.
        folder: A local folder.
        files_beside: The files that are wanted, relative to the model's folder, given the local model; by default
            those that its format names.

    Returns:
        The local path of the model, which has the same name.

    Raises:
        UsageError: It cannot be read.
        MissingExtra: A package for such URLs is not installed.
    """
    fs, path = _open(url)
    parent, slash, name = (path.partition("?")[0] if _HTTP.match(path) else path).rpartition("/")
    local = Path(folder, name)
    if name in ("", ".", "..") or "\0" in name:
        raise UsageError(f"model {url!r} is no file.")
    try:
        _download(fs, url, path, local)
    except FileNotFoundError:
        raise UsageError(f"model {url!r} is not there.") from None
    for each in (files_beside or _ask_format)(str(local)):
        beside = PurePosixPath(each)
        if beside.is_absolute() or ".." in beside.parts or not beside.parts:
            continue
        with suppress(FileNotFoundError):
            _download(fs, _to_url(url, f"{parent}{slash}{each}"), f"{parent}{slash}{each}", Path(folder, each))
    return str(local)


def _ask_format(model: str) -> tuple[str, ...]:
    one = format_of(model)
    return one.files_beside(model) if isinstance(one, ManyFiles) else ()


def _download(fs: Any, url: str, path: str, local: Path) -> None:
    """Copy a file.

    Raises:
        FileNotFoundError: It is not there.
    """
    local.parent.mkdir(parents=True, exist_ok=True)
    fs.invalidate_cache()
    info: Entry = _try("read", url, lambda: fs.info(path))
    if info["type"] != "file":
        raise UsageError(f"{url!r} is no file.")
    seconds = _time_of(fs, url, path)
    _try("read", url, lambda: fs.get_file(path, str(local)))
    os.utime(local, (seconds, seconds))


def _time_of(fs: Any, url: str, path: str) -> float:
    """When a file was last changed, or a number that is another for another state of it."""
    try:
        return _changed(fs, url, path)
    except UsageError:
        return float(int(_try("read", url, lambda: fs.ukey(path))[:7], 16))


def _changed(fs: Any, url: str, path: str) -> float:
    def ask() -> datetime:
        try:
            found = fs.modified(path)
        except (AttributeError, KeyError, TypeError) as error:  # it has no such method, or no such field
            raise NotImplementedError from error
        if not isinstance(found, datetime):
            raise NotImplementedError
        return found

    changed = _try("asked for its time of change", url, ask)
    return (changed if changed.tzinfo else changed.replace(tzinfo=UTC)).timestamp()


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
        _open(self.root)

    def read(self, name: str) -> bytes | None:
        """See `Store.read`."""
        fs, path = self._at(name)
        try:
            found: bytes = _try("read", self._url(name), lambda: fs.cat_file(path))
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
            entries: list[Entry] = _try("listed", self._url(prefix), lambda: fs.ls(path, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return
        files = sorted(entry["name"].rpartition("/")[2] for entry in entries if entry["type"] == "file")
        yield from (f"{prefix}/{name}" for name in files if name and not name.startswith(_BESIDE))

    def put_file(self, name: str, local: Path) -> None:
        """See `Store.put_file`."""
        fs, path = self._at(name)
        self._put(fs, name, path, lambda target: fs.put_file(str(local), target))

    def put_folder(self, name: str, local: Path) -> None:
        """See `Store.put_folder`: file by file, so whatever names the folder is written after it."""
        fs, path = self._at(name)
        fs.invalidate_cache()
        try:
            there = _try("listed", self._url(name), lambda: fs.find(path))
        except (FileNotFoundError, NotADirectoryError):
            there = []
        written = set()
        for file in sorted(each for each in local.rglob("*") if each.is_file()):
            beside = file.relative_to(local).as_posix()
            self.put_file(f"{name}/{beside}", file)
            written.add(f"{path}/{beside}")
        for other in set(there) - written:
            with suppress(FileNotFoundError):
                _try("removed", self._url(name), lambda other=other: fs.rm_file(other))  # type: ignore[misc]

    def changed(self, name: str) -> float:
        """See `Store.changed`."""
        fs, path = self._at(name)
        fs.invalidate_cache()
        try:
            return _changed(fs, self._url(name), path)
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
        fs, path = _open(self.root)
        return fs, f"{path.rstrip('/')}/{name}"

    def _url(self, name: str) -> str:
        return _to_url(self.root, f"{_after(self.root).rstrip('/')}/{name}")

    def _put(self, fs: Any, name: str, path: str, write: Callable[[str], Any]) -> None:
        """Write a file whole or not at all: beside and moved, unless the file system is so itself."""
        url = self._url(name)
        try:
            if not _OBJECT_STORES.isdisjoint(_protocols(fs)):
                _try("written", url, lambda: write(path))
                return
            _try("written", url, lambda: _write_beside(fs, path, write))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _failure("written", url, error) from None


_BESIDE = ".sliceport-"


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


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _open(url: str) -> tuple[Any, str]:
    """The file system of a URL, and its path there. fsspec keeps the file systems of a process.

    Raises:
        UsageError: It cannot be opened.
        MissingExtra: fsspec, or the package for such URLs, is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtra.of("fsspec", "fsspec", f"for {url!r}") from None
    try:
        fs, path = _try("opened", url, lambda: url_to_fs(url))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _failure("opened", url, error) from None
    except ImportError as error:
        raise MissingExtra(f"{url!r} cannot be opened: {_advise(url, error)}.") from None
    return fs, str(path)


def _advise(url: str, error: ImportError) -> str:
    """What to install for a URL."""
    from fsspec.registry import known_implementations

    said = str(error).rstrip(".")
    for part in url.split("::"):
        known = known_implementations.get(part.partition("://")[0], {})
        package = str(known.get("class", "")).partition(".")[0]
        if known.get("err", "").rstrip(".") == said and package not in ("", "fsspec"):
            return f"{package} is not installed; run: pip install {package.replace('_', '-')}"
    return said


def _after(url: str) -> str:
    """What follows `://` in the part of a chained URL that names a path."""
    first = next(part for part in url.split("::") if "://" in part)
    return first.partition("://")[2]


def _to_url(url: str, path: str) -> str:
    """The URL of a path of the file system of another URL."""
    if _HTTP.match(path):
        return path
    parts = url.split("::")
    i = next(i for i, part in enumerate(parts) if "://" in part)
    protocol, _, written = parts[i].partition("://")
    if path.startswith("/") and not written.startswith("/"):
        path = path.lstrip("/")
    return "::".join([*parts[:i], f"{protocol}://{path}", *parts[i + 1 :]])


def _try(what: str, url: str, action: Callable[[], T]) -> T:
    """Do something at a URL, a few times where it fails on the way.

    Raises:
        FileNotFoundError, NotADirectoryError, ImportError: As the action does.
        UsageError: It raises anything else.
    """
    for delay in (*_DELAYS, None):
        try:
            return action()
        except (FileNotFoundError, NotADirectoryError, ImportError):
            raise
        except Exception as error:  # each implementation has its own
            if delay is None or not _may_pass(error):
                raise _failure(what, url, error) from None
        time.sleep(delay)
    raise AssertionError("the last attempt returns or raises")


def _may_pass(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno not in _FINAL and not isinstance(
            error, PermissionError | IsADirectoryError | FileExistsError
        )
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names.isdisjoint(_ON_THE_WAY) and names.isdisjoint(_NOT_REACHED)


def _failure(what: str, url: str, error: Exception) -> UsageError:
    said = getattr(error, "strerror", None) or " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return UsageError(f"{url!r} cannot be {what} ({said}).")

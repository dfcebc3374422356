"""The file systems that URLs name, through fsspec: object stores, hubs, servers, archives."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from sliceport.errors import MissingExtra, UsageError

T = TypeVar("T")
Entry = dict[str, Any]

HTTP = re.compile(r"https?://")
_DELAYS = (0.2, 1.0, 3.0)
"""Seconds to wait before each repetition of an action that failed."""
_TRANSIENT = {"ClientConnectionError", "ClientPayloadError", "HTTPClientError", "IncompleteRead"}
"""Transient errors of aiohttp, botocore and http.client that do not derive from OSError."""
_NOT_REACHED = "ConnectTimeoutError"
"""An error of botocore that is not worth retrying, because botocore has retried already."""
_LASTING = {
    *(errno.EACCES, errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOSPC),
    *(errno.ENOTDIR, errno.EPERM, errno.EROFS),
}
"""Numbers of system errors that a repetition does not mend."""
_DIGESTS = ("ETag", "etag", "md5Hash", "crc32c", "CRC", "blob_id")
"""Keys of fsspec's `info` whose values change with the content of a file.

S3 and HTTP have `ETag`, Azure `etag`, Google `md5Hash` and `crc32c`, zip archives `CRC`, and Hugging Face `blob_id`.
"""


class RemoteError(UsageError):
    """A file at a URL cannot be read or written."""


def open_file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it. fsspec caches the file systems of a process.

    Raises:
        UsageError: The file system cannot be opened.
        MissingExtra: fsspec, or the package for such URLs, is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtra.of("fsspec", "fsspec", f"for '{url}'") from None
    try:
        fs, path = attempt("opened", url, lambda: url_to_fs(url))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise make_error("opened", url, error) from error
    except ImportError as error:
        raise MissingExtra(f"'{url}' cannot be opened: {_describe_missing_package(url, error)}.") from None
    return fs, str(path)


def _describe_missing_package(url: str, error: ImportError) -> str:
    """Return how to install the package that a URL needs, or the message of `error` if the package is unknown."""
    from fsspec.registry import known_implementations

    message = str(error).rstrip(".")
    for part in url.split("::"):
        entry = known_implementations.get(part.partition("://")[0], {})
        package = str(entry.get("class", "")).partition(".")[0]
        # fsspec raises the error `err` if the module of `class` cannot be imported.
        if entry.get("err", "").rstrip(".") == message and package not in ("", "fsspec"):
            return f"{package} is not installed; run: pip install {package.replace('_', '-')}"
    return message


def to_url(url: str, path: str) -> str:
    """Return the URL of a path. `url` is any URL of the same file system."""
    parts = url.split("::")
    i = next(i for i, part in enumerate(parts) if "://" in part)  # skips a cache, as in `simplecache::s3://a/b`
    if HTTP.match(path):  # the paths of fsspec's HTTP file system are whole URLs
        return "::".join([*parts[:i], path])
    protocol, _, path_in_url = parts[i].partition("://")
    if path.startswith("/") and not path_in_url.startswith("/"):  # some file systems, such as `memory`, add the slash
        path = path.lstrip("/")
    return "::".join([*parts[:i], f"{protocol}://{path}", *parts[i + 1 :]])


def list_tree(fs: Any, root: str, excluded: Collection[str] = ()) -> dict[str, Entry]:
    """Map the path of each file below a folder to the entry that fsspec returns for the file.

    Hidden folders, linked folders and the folders in `excluded` (paths that end with a slash) are not entered.
    """
    entries: dict[str, Entry] = {}
    for folder, folders, files in fs.walk(root, detail=True, on_error="raise"):
        for name, entry in list(folders.items()):
            path = f"{folder.rstrip('/')}/{name}/"
            if name.startswith(".") or entry.get("islink") or path in excluded:
                del folders[name]  # prunes the walk
        entries |= {entry["name"]: entry for entry in files.values()}
    fs.invalidate_cache()  # frees memory: the cache holds an entry for every file
    return entries


def describe_state(url: str) -> str | None:
    """Return a text that changes with a file's content, or None if the file system has no reliable digest.

    `ukey` of fsspec is not used: for most servers, it hashes only size and time, which `rsync -t` can leave unchanged.

    Raises:
        FileNotFoundError, NotADirectoryError: The file is missing.
        UsageError: The path is not a file, or the file system does not answer.
        MissingExtra: A package for such URLs is not installed.
    """
    fs, path = open_file_system(url)
    fs.invalidate_cache()  # fsspec would return an old entry
    info: Entry = attempt("read", url, lambda: fs.info(path))
    if info["type"] != "file":
        raise UsageError(f"'{url}' is not a file.")
    digests = {name: info[name] for name in _DIGESTS if info.get(name)}
    # A weak ETag (RFC 9110) may stay the same while bytes change.
    is_weak = any(str(value).startswith("W/") for value in digests.values())
    return None if is_weak or not digests else f"{url} {info.get('size')} {digests}"


def attempt(participle: str, url: str, action: Callable[[], T]) -> T:
    """Return the result of an action at a URL. Repeat the action up to three times after transient errors.

    Messages name the action by `participle`, such as `read`.

    Raises:
        FileNotFoundError, NotADirectoryError, ImportError: The action raises an error of this class.
        RemoteError: The action raises another error.
    """
    for delay in (*_DELAYS, None):
        try:
            return action()
        except (FileNotFoundError, NotADirectoryError, ImportError):
            raise
        except Exception as error:  # each implementation raises errors of its own
            if delay is None or not _is_transient(error):
                raise make_error(participle, url, error) from error
        time.sleep(delay)
    raise AssertionError("the last attempt returns or raises")


def _is_transient(error: Exception) -> bool:
    """Return whether an error may pass: one in `_TRANSIENT`, or an OSError that is not known to last."""
    names = {kind.__name__ for kind in type(error).__mro__}  # names, because the packages of the classes may be missing
    if _NOT_REACHED in names:  # checked first, because it is an OSError
        return False
    if isinstance(error, OSError):
        # Implementations of fsspec raise these classes without an error number.
        is_lasting = isinstance(error, PermissionError | IsADirectoryError | FileExistsError)
        return not is_lasting and error.errno not in _LASTING
    return not names.isdisjoint(_TRANSIENT)


def make_error(participle: str, url: str, error: Exception) -> RemoteError:
    """Return the error for a failed action at a URL. `participle` names the action in the message, such as `read`."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return RemoteError(f"'{url}' cannot be {participle} ({reason}).")

"""The file systems of URLs, by fsspec: object stores, hubs, servers, archives."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from sliceport.errors import MissingExtra, UsageError

T = TypeVar("T")
Entry = dict[str, Any]

HTTP = re.compile(r"https?://")
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


def protocols(fs: Any) -> tuple[str, ...]:
    """What URLs of a file system may begin with."""
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def open_file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and its path there. fsspec keeps the file systems of a process.

    Raises:
        UsageError: It cannot be opened.
        MissingExtra: fsspec, or the package for such URLs, is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtra.of("fsspec", "fsspec", f"for '{url}'") from None
    try:
        fs, path = attempt("opened", url, lambda: url_to_fs(url))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise failure("opened", url, error) from None
    except ImportError as error:
        raise MissingExtra(f"'{url}' cannot be opened: {_advise(url, error)}.") from None
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


def path_after(url: str) -> str:
    """What follows `://` in the part of a chained URL that names a path."""
    first = next(part for part in url.split("::") if "://" in part)
    return first.partition("://")[2]


def to_url(url: str, path: str) -> str:
    """The URL of a path of the file system of another URL."""
    if HTTP.match(path):
        return path
    parts = url.split("::")
    i = next(i for i, part in enumerate(parts) if "://" in part)
    protocol, _, written = parts[i].partition("://")
    if path.startswith("/") and not written.startswith("/"):
        path = path.lstrip("/")
    return "::".join([*parts[:i], f"{protocol}://{path}", *parts[i + 1 :]])


def attempt(what: str, url: str, action: Callable[[], T]) -> T:
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
                raise failure(what, url, error) from None
        time.sleep(delay)
    raise AssertionError("the last attempt returns or raises")


def _may_pass(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno not in _FINAL and not isinstance(
            error, PermissionError | IsADirectoryError | FileExistsError
        )
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names.isdisjoint(_ON_THE_WAY) and names.isdisjoint(_NOT_REACHED)


def failure(what: str, url: str, error: Exception) -> UsageError:
    """The error that something cannot be `what`, such as "read"."""
    said = getattr(error, "strerror", None) or " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return UsageError(f"'{url}' cannot be {what} ({said}).")


def time_of_change(fs: Any, url: str, path: str) -> float:
    """When a file was last changed, in seconds since 1970.

    Raises:
        FileNotFoundError: It is not there.
        UsageError: The file system does not say.
    """

    def ask() -> datetime:
        try:
            found = fs.modified(path)
        except (AttributeError, KeyError, TypeError) as error:  # it has no such method, or no such field
            raise NotImplementedError from error
        if not isinstance(found, datetime):
            raise NotImplementedError
        return found

    changed = attempt("asked for its time of change", url, ask)
    return (changed if changed.tzinfo else changed.replace(tzinfo=UTC)).timestamp()

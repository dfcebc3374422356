"""Models at URLs: which there are, and local copies of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from sliceport.batch.file_systems import HTTP, Entry, attempt, open_file_system, time_of_change, to_url
from sliceport.batch.sources import WILDCARD
from sliceport.errors import UsageError
from sliceport.formats import ManyFiles, format_of


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
    fs, path = open_file_system(url)
    is_http = HTTP.match(path) is not None
    left_out = {folder.rstrip("/") for other, folder in map(open_file_system, leave_out) if other == fs}
    if WILDCARD.search(path.replace("?", "") if is_http else path):
        yield from _glob(fs, url, path, tuple(suffixes), left_out)
        return
    try:
        info: Entry = attempt("read", url, lambda: fs.info(path))
    except FileNotFoundError:
        raise UsageError(f"source '{url}' is not there.") from None
    if info["type"] == "directory" or (is_http and path.endswith("/")):
        yield from _walk(fs, url, path, tuple(suffixes), left_out)
    else:
        yield url


def _glob(fs: Any, url: str, pattern: str, suffixes: tuple[str, ...], left_out: set[str]) -> Iterator[str]:
    found: dict[str, Entry] = attempt("listed", url, lambda: fs.glob(pattern, detail=True))
    ends = ("",) if pattern[-1] not in "*?]" else suffixes
    fixed = len(pattern[: WILDCARD.search(pattern).start()].rpartition("/")[0])  # type: ignore[union-attr]
    finds_hidden = "/." in pattern
    for path in sorted(found):
        is_hidden = any(name.startswith(".") for name in path[fixed:].split("/")) and not finds_hidden
        is_left_out = any(path.startswith(f"{folder}/") for folder in left_out)
        if found[path]["type"] == "file" and path.endswith(ends) and not is_hidden and not is_left_out:
            yield to_url(url, path)


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
            yield to_url(url, path)


def _list(fs: Any, url: str, folder: str) -> list[tuple[str, bool]]:
    """The paths in a folder, the last first, and whether each is a folder; without hidden ones."""
    try:
        entries: list[Entry] = attempt("listed", url, lambda: fs.ls(folder, detail=True))
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
    fs, path = open_file_system(url)
    parent, slash, name = (path.partition("?")[0] if HTTP.match(path) else path).rpartition("/")
    local = Path(folder, name)
    if name in ("", ".", "..") or "\0" in name:
        raise UsageError(f"model '{url}' is no file.")
    try:
        _download(fs, url, path, local)
    except FileNotFoundError:
        raise UsageError(f"model '{url}' is not there.") from None
    for each in (files_beside or _ask_format)(str(local)):
        beside = PurePosixPath(each)
        if beside.is_absolute() or ".." in beside.parts or not beside.parts:
            continue
        with suppress(FileNotFoundError):
            _download(fs, to_url(url, f"{parent}{slash}{each}"), f"{parent}{slash}{each}", Path(folder, each))
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
    info: Entry = attempt("read", url, lambda: fs.info(path))
    if info["type"] != "file":
        raise UsageError(f"'{url}' is no file.")
    seconds = _time_of(fs, url, path)
    attempt("read", url, lambda: fs.get_file(path, str(local)))
    os.utime(local, (seconds, seconds))


def _time_of(fs: Any, url: str, path: str) -> float:
    """When a file was last changed, or a number that is another for another state of it."""
    try:
        return time_of_change(fs, url, path)
    except UsageError:
        return float(int(attempt("read", url, lambda: fs.ukey(path))[:7], 16))

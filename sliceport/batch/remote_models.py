"""Models at URLs: find them, and copy them to a local folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from sliceport.batch.file_systems import HTTP, Entry, attempt, describe_state, list_tree, open_file_system, to_url
from sliceport.batch.names import WILDCARD
from sliceport.errors import UsageError
from sliceport.formats import ManyFiles, format_of


def find_models(url: str, suffixes: Sequence[str], leave_out: Sequence[str]) -> Iterator[str]:
    """Yield the URLs of the models at the URL of a file, a folder or a glob; see `expand_sources`.

    Links to folders are not followed, and the folders at the URLs in `leave_out` are not entered.

    Raises:
        UsageError: The URL does not name a file or folder, or the file or folder cannot be read.
        MissingExtra: A package for such URLs is not installed.
    """
    fs, path = open_file_system(url)
    is_http = HTTP.match(path) is not None
    excluded = {f"{folder.rstrip('/')}/" for other_fs, folder in map(open_file_system, leave_out) if other_fs == fs}
    wildcard = WILDCARD.search(path.replace("?", "_") if is_http else path)  # `?` begins a query in HTTP
    name_ends = tuple(suffixes)
    try:
        if wildcard is not None:
            entries: dict[str, Entry] = attempt("listed", url, lambda: fs.glob(path, detail=True))
            root = path[: wildcard.start()].rpartition("/")[0]
            if path[-1] not in "*?]":  # a pattern such as `*.pb` has its own suffix
                name_ends = ("",)
        # A web server does not tell a folder from a file, so a `/` at the end marks a folder.
        elif attempt("read", url, lambda: fs.info(path))["type"] == "directory" or (is_http and path.endswith("/")):
            entries, root = attempt("listed", url, lambda: list_tree(fs, path, excluded)), path
        else:
            yield url
            return
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"source '{url}' is not there.") from None
    # As in `sources._Search._glob`, hidden files are found if the part with the first wildcard, or a later part, begins
    # with a dot.
    finds_hidden = wildcard is not None and "/." in f"/{path[len(root) :]}"
    root = f"{root.rstrip('/')}/" if root else ""
    # A source is entered even if it lies in a folder to leave out, or is such a folder.
    excluded_below = tuple(folder for folder in excluded if folder.startswith(root) and folder != root)
    for name in sorted(entries):
        is_hidden = any(part.startswith(".") for part in name[len(root) :].split("/")) and not finds_hidden
        is_file = entries[name]["type"] == "file" and name.endswith(name_ends)
        if is_file and not is_hidden and not name.startswith(excluded_below):
            yield to_url(url, name)


def download(url: str, folder: Path) -> tuple[str, dict[str, str | None]]:
    """Copy a model and its other files into a new folder in the local `folder`. Skip other files that are missing.

    Returns:
        The path of the copy, and the state of each file by name; see `describe_state`. The name of the model is "". A
        state is None if it is unknown or changed during the download.

    Raises:
        UsageError: The model or another of its files cannot be read, or no format accepts the model.
        MissingExtra: A package for such URLs is not installed.
    """
    path = open_file_system(url)[1]
    name = (path.partition("?")[0] if HTTP.match(path) else path).rpartition("/")[2]
    if name in ("", ".", "..") or "\0" in name:
        raise UsageError(f"model '{url}' is not a file.")
    folder.mkdir(exist_ok=True)
    local = Path(tempfile.mkdtemp(dir=folder)) / name
    try:
        states = {"": _download_file(url, local)}
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"model '{url}' is not there.") from None
    for beside in list_files_beside(str(local)):
        with suppress(FileNotFoundError, NotADirectoryError):
            states[beside] = _download_file(url_beside(url, beside), local.parent / beside)
    return str(local), states


def list_files_beside(model: str) -> list[str]:
    """Return the names of a model's other files, such as weights, relative to its folder. Leave out files outside it.

    Raises:
        UsageError: No format accepts the model.
    """
    model_format = format_of(model)
    names = map(PurePosixPath, model_format.files_beside(model) if isinstance(model_format, ManyFiles) else ())
    return [str(name) for name in names if name.parts and not name.is_absolute() and ".." not in name.parts]


def url_beside(url: str, name: str) -> str:
    """Return the URL of a file beside a model, without the query of the model's URL."""
    path = open_file_system(url)[1]
    # For HTTP, the path is the whole URL with its query. In other paths, `?` is an ordinary character.
    folder = (path.partition("?")[0] if HTTP.match(path) else path).rpartition("/")[0]
    return to_url(url, f"{folder}/{name}")


def _download_file(url: str, local: Path) -> str | None:
    """Copy a file. Return its state, or None if the state changed meanwhile or is not known.

    Raises:
        FileNotFoundError, NotADirectoryError: The file is missing.
        UsageError: The URL does not name a file, or the file cannot be read.
        MissingExtra: A package for such URLs is not installed.
    """
    local.parent.mkdir(parents=True, exist_ok=True)
    fs, path = open_file_system(url)
    state = describe_state(url)
    attempt("read", url, lambda: fs.get_file(path, str(local)))
    if state is None or state != describe_state(url):
        return None
    return state

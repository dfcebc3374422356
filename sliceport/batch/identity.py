"""The key of a model's result: the hash of everything that the result depends on."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sliceport.batch.digests import State, digest_file, read_cached, state_of, write_cached
from sliceport.batch.names import is_url
from sliceport.batch.remote_models import Copy, describe_state, download, list_beside, url_beside
from sliceport.batch.result import SCHEMA_VERSION
from sliceport.batch.task import Job, Task
from sliceport.errors import ModelError
from sliceport.formats import format_of

_MISSING = "missing"


@dataclass(frozen=True)
class Contents:
    """The files of a model, by digests.

    Attributes:
        path: The model's local file; empty for a model at a URL that was not downloaded.
        model: The digest of the model's file.
        beside: The digests of its other files by name, `missing` for a missing one.
    """

    path: str
    model: str
    beside: Mapping[str, str]


@dataclass(frozen=True)
class Identity:
    """A model that was found.

    Attributes:
        key: The key of its result.
        path: Its local file; empty for a model at a URL that was not downloaded.
        files: The states of the local files that the result depends on.
    """

    key: str
    path: str
    files: Mapping[str, State] = field(default_factory=dict)

    def is_current(self) -> bool:
        """Return whether all files are as they were hashed. Other programs may change them at any time."""
        return all(state_of(file) == state for file, state in self.files.items())


def identify(job: Job, task: Task, folder: Path, *, downloads: bool = False) -> Identity:
    """Find a model and compute the key of its result.

    Args:
        job: The command and options of the run.
        task: The model.
        folder: A local folder for copies of what lies at URLs.
        downloads: Whether a model at a URL is copied even if the digests of its files are cached.

    Raises:
        ModelError: The model cannot be read.
        UsageError: No format takes the model, or it cannot be copied.
    """
    files: dict[str, State] = {}
    try:
        if is_url(task.location):
            contents = (None if downloads else _recall(task.location)) or _download(task.location, folder)
        else:
            contents = _read(task.location, files)
    except OSError as error:
        raise ModelError(f"it cannot be read ({error.strerror or error}).") from error
    options = options_of(job, task)
    depends = {
        "schema_version": SCHEMA_VERSION,
        "command": job.command,
        "options": options,
        "inputs": {name: _digest_input(file, folder, files) for name, file in options.get("inputs", {}).items()},
        "chooses_shapes": job.chooses_shapes,
        "writes": job.writes,
        "versions": dict(job.versions),
        "format": format_of(task.location if is_url(task.location) else contents.path).name,
        "content": contents.model,
        "beside": dict(contents.beside),
    }
    key = hashlib.sha256(json.dumps(depends, sort_keys=True).encode("ascii")).hexdigest()
    return Identity(key, contents.path, files)


def _read(path: str, files: dict[str, State]) -> Contents:
    """Hash the files of a local model, and note their states in `files`.

    Raises:
        ModelError: The path is not a file.
        OSError: A file cannot be read.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelError("it is a folder, a pipe or a device, not a file.")
    files[path] = state_of(path)
    digest = digest_file(path)
    beside = {}
    for name in list_beside(path):
        file = os.path.join(os.path.dirname(path), name)
        files[file] = state_of(file)
        beside[name] = digest_file(file) if os.path.isfile(file) else _MISSING
    return Contents(path, digest, beside)


def _recall(url: str) -> Contents | None:
    """Return the digests of a model at a URL from the cache; None unless all files are as they were then."""
    try:
        if (state := describe_state(url)) is None or (cached := read_cached(state)) is None:
            return None
        digest, _, names = cached.partition(" ")
        beside = {}
        for name in json.loads(names):
            file = _describe_beside(url, name)
            if file is None or (known := _MISSING if file == _MISSING else read_cached(file)) is None:
                return None
            beside[name] = known
        return Contents("", digest, beside)
    except (FileNotFoundError, ValueError):  # the download tells why a model is not there
        return None


def _download(url: str, folder: Path) -> Contents:
    """Copy a model to a local folder, and cache the digests of its files."""
    copy = fetch_with_states(url, folder)
    contents = _read(copy.path, {})
    for name, digest in contents.beside.items():
        if digest != _MISSING and (state := copy.states.get(name)) is not None:
            write_cached(state, digest)
    if (state := copy.states.get("")) is not None:
        write_cached(state, f"{contents.model} {json.dumps(list(contents.beside))}")
    return contents


def _describe_beside(url: str, name: str) -> str | None:
    try:
        return describe_state(url_beside(url, name))
    except FileNotFoundError:
        return _MISSING


def options_of(job: Job, task: Task) -> dict[str, Any]:
    """Return the options of a task and of its job. For each input, the options of the task come first."""
    options = {**job.options, **task.options}
    for name in ("input_shapes", "inputs"):
        if by_input := {**(job.options.get(name) or {}), **(task.options.get(name) or {})}:
            options[name] = by_input
    return options


def _digest_input(file: str, folder: Path, files: dict[str, State]) -> str | None:
    """Return the digest of an array, or None if it is missing: the command says so."""
    if not is_url(file):
        files[file] = state_of(file)
        return digest_file(file) if os.path.isfile(file) else None
    return digest_file(fetch(file, folder))


def fetch(location: str, folder: Path) -> str:
    """Return a local copy of a file at a URL and of the files beside it; a path as it is.

    Raises:
        UsageError: The file cannot be read.
    """
    return fetch_with_states(location, folder).path if is_url(location) else location


def fetch_with_states(url: str, folder: Path) -> Copy:
    """Copy a model at a URL to a new folder in `folder`.

    Raises:
        UsageError: The model cannot be read.
    """
    folder.mkdir(exist_ok=True)
    return download(url, Path(tempfile.mkdtemp(dir=folder)))

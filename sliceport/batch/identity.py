"""The key of a model's result: the hash of everything that the result depends on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sliceport.batch.digests import State, digest_file, read_cached, state_of, write_cached
from sliceport.batch.file_systems import describe_state
from sliceport.batch.names import is_url
from sliceport.batch.remote_models import download, list_files_beside, url_beside
from sliceport.batch.result import SCHEMA_VERSION
from sliceport.batch.task import Job, Task
from sliceport.errors import ModelError, UsageError
from sliceport.formats import format_of

_MISSING = "missing"
"""Placeholder for the digest of a missing file that a model names."""

Digests = dict[str, str]
"""The digests of a model's files by name. The model itself has the empty name."""


@dataclass(frozen=True)
class Identity:
    """A model, and the key of its result.

    Attributes:
        key: The key; empty if the model was not identified, or was changed meanwhile.
        path: Its local file, or its location if it was not identified; empty for a URL that was not downloaded.
        files: The states of the local files that the result depends on.
        inputs: The local files of the arrays for inputs.
    """

    key: str
    path: str
    files: Mapping[str, State] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)

    def is_current(self) -> bool:
        """Return whether no file has changed since it was hashed. Other programs may change the files at any time."""
        return all(state_of(file) == state for file, state in self.files.items())


def identify(job: Job, task: Task, folder: Path, *, downloads: bool = False) -> Identity:
    """Find a model and compute the key of its result.

    Files at URLs are copied into the local folder `folder`. A model at a URL is copied only if `downloads` is set, or
    if the digests of its files are not cached.

    Raises:
        ModelError: The model cannot be read.
        UsageError: No format accepts the model, or an array's file or a file at a URL cannot be read.
        MissingExtra: A package for one of the URLs is not installed.
    """
    states: dict[str, State] = {}
    path = "" if is_url(task.location) else task.location
    try:
        digests = None
        if path:
            digests = _digest_files(path, states)
        elif not downloads:
            digests = _read_cached_digests(task.location)
        if digests is None:
            path, digests = _download_and_digest(task.location, folder)
    except OSError as error:
        raise ModelError(f"it cannot be read ({error.strerror or error}).") from error
    options = options_of(job, task)
    inputs = {name: fetch(file, folder) for name, file in (options.get("inputs") or {}).items()}
    content = digests.pop("")  # leaves the digests of the other files
    dependencies = {
        "schema_version": SCHEMA_VERSION,
        "command": job.command,
        "options": options,
        "inputs": {name: _digest_input(file, states) for name, file in inputs.items()},
        "writes": job.writes,
        "versions": dict(job.versions),
        "format": format_of(task.location).name,
        "content": content,
        "beside": digests,
    }
    key = hashlib.sha256(json.dumps(dependencies, sort_keys=True).encode("ascii")).hexdigest()
    return Identity(key, path, states, inputs)


def _digest_files(path: str, states: dict[str, State]) -> Digests:
    """Hash the files of a local model, and note their states in `states`. A missing data file has a digest, `_MISSING`.

    Raises:
        ModelError: The path is not a file.
        UsageError: No format accepts the model.
        OSError: A file cannot be read.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelError("it is a folder, a pipe or a device, not a file.")
    # A state is read before the content, so that `Identity.is_current` also finds a change during the reading.
    states[path] = state_of(path)
    digests = {"": digest_file(path)}
    for name in list_files_beside(path):
        file = os.path.join(os.path.dirname(path), name)
        states[file] = state_of(file)
        digests[name] = digest_file(file) if os.path.isfile(file) else _MISSING
    return digests


def _read_cached_digests(url: str) -> Digests | None:
    """Return the digests of a model at a URL; None if a digest is not cached, or a file cannot be read."""
    try:
        if (state := describe_state(url)) is None or (cached := read_cached(f"{state} model")) is None:
            return None
        digest, _, names = cached.partition(" ")  # the digest of the model, then the names of its other files
        digests = {"": digest}
        for name in json.loads(names):
            try:
                state = describe_state(url_beside(url, name))
            except FileNotFoundError:
                digests[name] = _MISSING
                continue
            if state is None or (cached := read_cached(state)) is None:
                return None
            digests[name] = cached
        return digests
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # The caller then downloads the model, and the download reports a file that is missing or cannot be read. A
        # UsageError is a ValueError, and so is the error of `json` for a damaged entry.
        return None


def _download_and_digest(url: str, folder: Path) -> tuple[str, Digests]:
    """Copy a model to a local folder, cache the digests of its files, and return the path and the digests."""
    path, states = download(url, folder)
    digests = _digest_files(path, {})  # {}: the states of the copies are not needed
    for name, state in states.items():
        if state is not None and name:
            write_cached(state, digests[name])
        elif state is not None:  # the model, whose name is ""
            # The key of this entry ends in ` model`, because the file may also be a data file of another model.
            write_cached(f"{state} model", f"{digests['']} {json.dumps([name for name in digests if name])}")
    return path, digests


def options_of(job: Job, task: Task) -> dict[str, Any]:
    """Merge the options of a job and a task; those of the task win. Merge `input_shapes` and `inputs` by input."""
    options = {**job.options, **task.options}
    for name in ("input_shapes", "inputs"):
        if by_input := {**(job.options.get(name) or {}), **(task.options.get(name) or {})}:
            options[name] = by_input
    return options


def _digest_input(file: str, states: dict[str, State]) -> str | None:
    """Return the digest of the file of an array, and store its state in `states`.

    Return None if the path is not a file: the command reports the error. Raise a UsageError for an unreadable file.
    """
    states[file] = state_of(file)
    try:
        return digest_file(file) if os.path.isfile(file) else None
    except OSError as error:
        raise UsageError(f"input file '{file}' cannot be read ({error.strerror or error}).") from error


def fetch(location: str, folder: Path) -> str:
    """Return the local path of a model or of an array's file. A path is returned unchanged, even if no file is there.

    A file at a URL is copied into a new folder in `folder`. The other files of a model are copied, too.

    Raises:
        UsageError, MissingExtra: See `download`.
    """
    return download(location, folder)[0] if is_url(location) else location

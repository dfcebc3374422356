"""What identifies the result of a model: the hash of all that it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sliceport.batch.digests import State, digest_file, state_of
from sliceport.batch.result import SCHEMA_VERSION
from sliceport.batch.sources import is_url
from sliceport.batch.task import Job, Task
from sliceport.errors import ModelError, UsageError
from sliceport.formats import ManyFiles, format_of


@dataclass(frozen=True)
class Identity:
    """A model that was found.

    Attributes:
        key: The name of its result.
        path: Where it lies on this machine.
        files: The files that were looked at, with their states.
    """

    key: str
    path: str
    files: Mapping[str, State]

    def is_current(self) -> bool:
        """Whether no file was changed since: nobody keeps others from it."""
        return all(state_of(file) == state for file, state in self.files.items())


def identify(job: Job, task: Task, folder: Path) -> Identity:
    """Find a model.

    Args:
        job: What all tasks have in common.
        task: The model.
        folder: Where what lies at a URL is copied to.

    Raises:
        ModelError: It cannot be read.
        UsageError: No format takes it, or it cannot be copied.
    """
    path = fetch(task.location, folder)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelError("it is a folder, a pipe or a device, not a file.")
    one = format_of(path)
    names = one.files_beside(path) if isinstance(one, ManyFiles) else ()
    beside = {name: os.path.join(os.path.dirname(path), name) for name in names}
    inputs = [file for file in options_of(job, task).get("inputs", {}).values() if not is_url(file)]
    files = {file: state_of(file) for file in (path, *beside.values(), *inputs)}
    return Identity(_make_key(job, task, path, beside, folder), path, files)


def _make_key(job: Job, task: Task, path: str, beside: Mapping[str, str], folder: Path) -> str:
    """Return the hash of all that a result depends on.

    Args:
        job: The job.
        task: The task.
        path: The model's file.
        beside: The other files of the model, by the name that the model has for each.
        folder: A local folder for downloaded arrays.

    Raises:
        ModelError: The model cannot be read.
    """
    try:
        content = digest_file(path)
        contents = [[name, _digest_if_there(file)] for name, file in beside.items()]
    except OSError as error:
        raise ModelError(f"it cannot be read ({error.strerror or error}).") from None
    options = options_of(job, task)
    depends = {
        "schema_version": SCHEMA_VERSION,
        "command": job.command,
        "options": options,
        "inputs": {name: _digest_input(file, folder) for name, file in options.get("inputs", {}).items()},
        "chooses_shapes": job.chooses_shapes,
        "writes": job.writes,
        "versions": dict(job.versions),
        "format": format_of(path).name,
        "content": content,
        "beside": contents,
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode("ascii")).hexdigest()


def options_of(job: Job, task: Task) -> dict[str, Any]:
    """The options of a task, those of the job among them. For each input, what the task says of it comes first."""
    options = {**job.options, **task.options}
    for name in ("input_shapes", "inputs"):
        if by_input := {**(job.options.get(name) or {}), **(task.options.get(name) or {})}:
            options[name] = by_input
    return options


def _digest_if_there(file: str) -> str | None:
    """Return the digest of a data file, or None if it is missing: the command says so."""
    return digest_file(file) if os.path.isfile(file) else None


def _digest_input(file: str, folder: Path) -> str | None:
    try:
        return digest_file(fetch(file, folder))
    except (OSError, UsageError):
        return None  # the work says what is wrong with it


def fetch(location: str, folder: Path) -> str:
    """A local copy of what lies at a URL, and of the files beside it; a path as it is.

    Raises:
        UsageError: It cannot be read.
    """
    if not is_url(location):
        return location
    from sliceport.batch.remote_models import download

    folder.mkdir(exist_ok=True)
    return download(location, tempfile.mkdtemp(dir=folder))

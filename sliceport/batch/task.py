"""Tasks of a batch: one model each, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sliceport.batch.row import Row, Verdict
from sliceport.batch.versions import versions


@dataclass(frozen=True)
class Job:
    """The command and options that all tasks of a run share.

    Attributes:
        command: The command's name, one of `sliceport.commands.command.NAMES`.
        root: The folder or URL of the results.
        options: Arguments of the Python function that does the same as the command. `inputs` maps inputs to files
            instead of arrays.
        versions: The versions of all packages that compute something, by package.
        timeout: Seconds that the command may take for a model; None for no limit.
        memory: Bytes that each process of a model may allocate; None for no limit.
        writes: Whether to keep files of a command that writes only if asked.
        retries: Whether models that failed before are tried again.
    """

    command: str
    root: str
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    timeout: float | None = None
    memory: int | None = None
    writes: bool = False
    retries: bool = False


@dataclass(frozen=True)
class Task:
    """One model.

    Attributes:
        model: Its name, as the user gave it.
        location: Its absolute path or URL.
        options: Shapes and arrays of inputs. They replace those that the job has for the same inputs.
    """

    model: str
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """The outcome of a task.

    Attributes:
        model: The model's name.
        key: The name of its result; empty if the model was not identified, or was changed meanwhile.
        verdict: The verdict.
        cached: Whether an earlier run has stored the result.
        seconds: The time that the task took.
        row: The row of a model whose result is not stored; None for other models.
    """

    model: str
    key: str
    verdict: Verdict
    cached: bool = False
    seconds: float = 0.0
    row: Row | None = None

"""Tasks of a batch: one model each, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sliceport.batch.row import Row, Verdict


@dataclass(frozen=True)
class Job:
    """The command and options that all tasks of a run share.

    Attributes:
        command: The command's name.
        options: Its options, as `Command.run` takes them.
        versions: The versions of all that computes; see `sliceport.batch.versions`.
        root: The folder or URL of the results.
        timeout: Seconds that a model may take; None for any.
        memory: Bytes that each process of a model may allocate; None for any.
        writes: Whether the files that the command writes are kept.
        chooses_shapes: Whether open sizes of inputs are chosen.
        retries: Whether what failed before is done again.
    """

    command: str
    options: Mapping[str, Any]
    versions: Mapping[str, str]
    root: str
    timeout: float | None = None
    memory: int | None = None
    writes: bool = False
    chooses_shapes: bool = False
    retries: bool = False


@dataclass(frozen=True)
class Task:
    """One model.

    Attributes:
        model: Its name, as the user gave it.
        location: Its absolute path or URL.
        options: The options that differ from the job's.
    """

    model: str
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """The outcome of a task.

    Attributes:
        model: The model's name.
        key: The name of its result; empty where the model could not be read, and `row` is all there is.
        verdict: The verdict.
        message: The result in a sentence.
        findings: The number of findings.
        cached: Whether the result was there before.
        seconds: The time that the task took.
        row: The row of a model that could not be read.
    """

    model: str
    key: str
    verdict: Verdict
    message: str
    findings: int = 0
    cached: bool = False
    seconds: float = 0.0
    row: Row | None = None

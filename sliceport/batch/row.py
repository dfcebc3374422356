"""What a run says about its models: the header of the run and a row a model, as they stand in its files."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from sliceport.commands.outcome import Finding

Verdict = Literal["clean", "finding", "error", "crash", "timeout", "memory", "lost"]

FAILURES: tuple[Verdict, ...] = ("error", "crash", "timeout", "memory", "lost")
DEATHS: tuple[Verdict, ...] = ("crash", "timeout", "memory")
"""Verdicts on models that ended their process, or whose process was ended."""
VERDICTS: tuple[Verdict, ...] = (*FAILURES, "finding", "clean")

MAX_LISTED = 20
"""The number of models, findings or names that a report lists of one kind."""

INFORMATIVE = frozenset({"rewritten", "contested"})
"""Reasons of findings that tell what was done with a model, or left, and are nothing wrong."""


class Row(TypedDict):
    """What came out for one model: a line of results.jsonl."""

    schema_version: int
    model: str  # a path or URL as the user gave it
    key: str  # 64 hexadecimal digits; empty where the model could not be read
    command: str
    verdict: Verdict
    message: str  # why; may be empty for clean
    findings: list[Finding]
    result: dict[str, Any] | None  # what the command prints as JSON
    input_shapes: NotRequired[dict[str, list[int]]]  # what was chosen for inputs with open sizes
    stderr: NotRequired[list[str]]  # the last lines, of a process that ended badly
    output: NotRequired[str]  # relative to the folder of the run


class Header(TypedDict):
    """The first line of a journal: the command, options, sources and package versions of a run."""

    schema_version: int
    command: str
    options: dict[str, Any]
    sources: list[str]
    versions: dict[str, str]  # by package
    started: str  # UTC, ISO 8601
    shard: str | None  # "1/3"
    timeout: float | None  # seconds a model
    memory: int | None  # bytes a model
    jobs: int
    models: int


def reasons_of(row: Row) -> list[str]:
    """The reasons of a row's findings, each once and in order; where there are none, the verdict unless it is clean."""
    found = sorted({finding["reason"] for finding in row["findings"]})
    return found or [row["verdict"]] * (row["verdict"] != "clean")


def severity(verdict: str) -> int:
    """The place of a verdict from the worst, 0, to clean; one that is not known counts as an error."""
    return VERDICTS.index(verdict) if verdict in VERDICTS else 0

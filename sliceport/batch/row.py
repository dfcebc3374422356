"""Records of a run: its header, and a row for each model, as the files of the run hold them."""

from __future__ import annotations

import re
from typing import Any, Literal, NotRequired, TypedDict

from sliceport.commands.outcome import Finding

Verdict = Literal["clean", "finding", "untested", "error", "crash", "timeout", "memory", "lost"]

FAILURES: tuple[Verdict, ...] = ("error", "crash", "timeout", "memory", "lost")
DEATHS: tuple[Verdict, ...] = ("crash", "timeout", "memory")
"""Verdicts on models whose process ended or was killed."""
VERDICTS: tuple[Verdict, ...] = (*FAILURES, "untested", "finding", "clean")

MAX_LISTED = 20
"""The largest number of models, findings or names that a report lists of one kind."""

_MAX_CAUSE = 80
"""Number of characters after which a cause is cut off."""

MEANINGS: dict[Verdict, str] = {
    "error": "The model cannot be read, or does not fit the options. Its message says what to mend.",
    "crash": "The model ended its process. Its last lines of stderr say where; report it with the model.",
    "timeout": "The model took longer than --timeout. Give it more time.",
    "memory": "The model needed more than --memory. Give it more memory, and fewer --jobs.",
    "lost": "No worker could finish the model, or somebody removed its result. Run the same command again.",
    "untested": "All outputs are untested: a wrong model would compute the same. Try other inputs.",
    "finding": "The command alone would exit with 1: something is refused, differs or is not fixed.",
    "clean": "The command alone would exit with 0.",
}
"""The meaning of each verdict, and what to do about it."""

INFORMATIVE = frozenset({"rewritten", "contested"})
"""Reasons of findings that are not errors: a node was changed, or was left because engines disagree about it."""


class Row(TypedDict):
    """Outcome of one model: a line of results.jsonl."""

    schema_version: int
    model: str  # a path or URL as the user gave it
    key: str  # 64 hexadecimal digits; empty if the model was not identified, or was changed meanwhile
    command: str
    verdict: Verdict
    message: str  # the reason for the verdict; may be empty for clean
    findings: list[Finding]
    result: dict[str, Any] | None  # the JSON that the command prints
    input_shapes: NotRequired[dict[str, list[int]]]  # the shapes chosen for inputs with open sizes
    stderr: NotRequired[list[str]]  # the last lines of a process that died
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
    """Return the sorted reasons of the findings. If a failed model has none, return its cause or verdict."""
    if not row["findings"] and row["verdict"] != "clean":
        return [cause_of(row["message"]) or row["verdict"]]
    return sorted({finding["reason"] for finding in row["findings"]})


def cause_of(message: str) -> str:
    """Return the part of a message between the node and any explanation, with `…` for names and numbers.

    The text is cut off after 80 characters. An internal error is named by its class alone.

    >>> cause_of("Slice 'a': the shape of input 'x, y' is open: give sizes, as in --input-shapes x:1,16 (an example).")
    'the shape of input … is open'
    >>> cause_of("internal error (ZeroDivisionError: it divides by 0); please report it with this model.")
    'internal error (ZeroDivisionError)'
    """
    if unforeseen := re.match(r"internal error \((\w+)", message):
        return f"internal error ({unforeseen[1]})"
    text = re.sub(r"^\w+ ('[^']*'|\"[^\"]*\"): ", "", message)  # removes the operator and the node
    text = re.sub(r"(?<!\w)('[^']*'|\"[^\"]*\")|\d+(\.\d+)?", "…", text)
    text = re.split(r" \(|: |; |, ", text, maxsplit=1)[0].rstrip(".")  # the part before any explanation
    return text if len(text) <= _MAX_CAUSE else f"{text[:_MAX_CAUSE]}…"

"""The outcome of a command for one model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from sliceport.formats import Result

Options = Mapping[str, Any]
"""Arguments of a Python function, with arrays in `inputs`, and options of the command alone, such as `fail_on`."""


class Finding(TypedDict):
    """A fault of a model, or a change to it. Fields that do not apply are empty."""

    reason: str  # a kind, a status or a code, such as `mismatch`
    operator: str
    engine: str
    defect: str  # the id of an entry of sliceport/defects
    node: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command for one model. Fields that only some callers need are functions.

    Attributes:
        is_clean: Whether the command line exits with 0 rather than 1.
        is_untested: Whether nothing was compared, so that the command line exits with 2.
        summary: Formats the outcome in one line.
        to_json: Returns the outcome as `--format json` prints it.
        text: Formats the outcome for people. Its arguments are whether to print more, and the width of the terminal in
            columns, or None.
        list_findings: Lists the faults of the model, or the changes to it.
        output: The main file or the folder that was written; None if nothing was written.
        files: The contents of further text files, by name. The command line writes them.
        input_shapes: The shapes that `execute` chose for inputs with open sizes.
    """

    is_clean: bool
    summary: Callable[[], str]
    to_json: Callable[[], dict[str, Any]]
    text: Callable[[bool, int | None], str]
    list_findings: Callable[[], list[Finding]]
    is_untested: bool = False
    output: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def make_finding(
    reason: str, operator: str = "", node: str = "", message: str = "", *, engine: str = "", defect: str = ""
) -> Finding:
    """Build a finding. Fields that do not apply are empty."""
    return Finding(reason=reason, operator=operator, engine=engine, defect=defect, node=node, message=message)


def repeat_for_defects(finding: Finding, defects: Iterable[str]) -> list[Finding]:
    """Return a finding once for each defect that explains it, or unchanged if no defect does."""
    return [{**finding, "defect": defect} for defect in defects] or [finding]


def outcome_of_change(result: Result, output: Path, list_changes: Callable[[], list[Finding]]) -> Outcome:
    """Build the outcome of a command that writes a changed model to `output`.

    The findings are those of `list_changes`, and one for each difference that the verification found.
    """

    def list_findings() -> list[Finding]:
        differences = result.to_json().get("differences", ())  # missing if the caller did not ask for a verification
        return [*list_changes(), *(make_finding("changed values", message=message) for message in differences)]

    return Outcome(
        is_clean=result.is_clean,
        summary=lambda: result.summary,
        to_json=result.to_json,
        text=lambda verbose, _: result.text(verbose=verbose),
        list_findings=list_findings,
        output=output if result.is_written else None,
    )

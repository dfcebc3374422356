"""Results of `diff` as text for people, and as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sliceport.checking import harden_command
from sliceport.report.drawing import lay_out
from sliceport.report.page import open_template
from sliceport.report.table import printable, table

if TYPE_CHECKING:
    from sliceport.search.report import DiffReport
    from sliceport.verdict.difference import OutputDiff

_MAX_NODES = 30
"""The largest number of nodes that are drawn. If there are more, their names are listed instead."""


def diff_text(report: DiffReport, columns: int | None = None) -> str:
    """Format a report: a table of outputs at most `columns` wide, the differences, their causes, and a summary."""
    head = [table(_list_rows(report.outputs), columns)] if report.outputs else []
    lines = [
        f"{output.name}: {'untested, because ' * (output.status == 'untested')}{output.distribution or output.detail}"
        for output in report.outputs
        if output.detail
    ]
    sentences = [*lines, *report.placement, *filter(None, [report.failure_sentence]), *report.sentences]
    return "\n".join([*head, *map(printable, sentences), diff_summary(report)])


def diff_summary(report: DiffReport) -> str:
    """Format the engines and the result on one line. The result is the engine that failed, or the counts of outputs."""
    statuses = [output.status for output in report.outputs]
    kinds = [status for status in ("equal", "close", "rounding", "untested", "different") if status in statuses]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in kinds)
    failed = f"{report.failed} does not run the {report.failed_model}" if report.failed else ""
    result = failed or f"outputs: {counts or 'none'}"
    return printable(f"{report.on} against {report.against}; {result}")


def _list_rows(outputs: tuple[OutputDiff, ...]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("output", "elements", "shape", "result", "absolute", "relative", "ulps")]
    for output in outputs:
        result = f"{output.status} ({output.kind})" if output.kind else output.status
        ulps = "-" if output.ulps is None else f"{output.ulps:.3g}"
        shape, absolute, relative = str(list(output.shape)), f"{output.absolute:.2g}", f"{output.relative:.2g}"
        rows.append((output.name, output.element, shape, result, absolute, relative, ulps))
    return rows


def diff_page(report: DiffReport, models: Sequence[str]) -> str:
    """Return an HTML page of a report. `models` are the files of the compared models.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    parts = []
    for part in report.parts:
        wrong = [output.name for output in part.outputs if output.kind]
        drawing = lay_out(part.case, wrong) if len(part.case.nodes) <= _MAX_NODES else None
        # The template shows known defects as cards. If no defect is known, the sentences end in "not a known defect".
        parts.append((part, part.sentences_without_defects if part.defects else part.sentences, drawing))
    return open_template("report/diff.html").render(
        title=f"sliceport diff: {' '.join(models)}",
        summary=diff_summary(report),
        models=models,
        report=report,
        parts=parts,
        remarks=[*report.placement, *filter(None, [report.failure_sentence]), *report.notes],
        harden_command=harden_command,
    )

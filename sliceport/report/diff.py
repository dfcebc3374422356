"""Results of `diff` as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceport.report.table import printable, table

if TYPE_CHECKING:
    from sliceport.diffing.difference import OutputDiff
    from sliceport.diffing.report import DiffReport


def diff_text(report: DiffReport, columns: int | None = None) -> str:
    """Format a report: a table of outputs at most `columns` wide, each difference, and the node behind it."""
    head = [table(_rows(report.outputs), columns)] if report.outputs else []
    lines = [f"{one.name}: {one.distribution or one.detail}" for one in report.outputs if one.status == "different"]
    if report.failed and report.failure is not None:
        lines.append(f"{report.failed}: {report.failure.message}")
    lines += report.part.sentences if report.part is not None else ()
    lines += report.notes
    return "\n".join([*head, *map(printable, lines), diff_summary(report)])


def diff_summary(report: DiffReport) -> str:
    """Format the engines and the counts of outputs on one line."""
    statuses = [one.status for one in report.outputs]
    listed = ", ".join(f"{statuses.count(one)} {one}" for one in ("equal", "close", "different") if one in statuses)
    result = f"{report.failed} does not run the model" if report.failed else f"outputs: {listed or 'none'}"
    return printable(f"{report.on} against {report.against}; {result}")


def _rows(outputs: tuple[OutputDiff, ...]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("output", "elements", "shape", "result", "absolute", "relative", "ulps")]
    for one in outputs:
        result = f"{one.status} ({one.kind})" if one.kind else one.status
        ulps = "-" if one.ulps is None else f"{one.ulps:.3g}"
        rows.append(
            (one.name, one.element, str(list(one.shape)), result, f"{one.absolute:.2g}", f"{one.relative:.2g}", ulps)
        )
    return rows

"""Results of `diff` as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceport.report.table import printable, table

if TYPE_CHECKING:
    from sliceport.diffing.difference import OutputDiff
    from sliceport.diffing.report import DiffReport


def diff_text(report: DiffReport, columns: int | None = None) -> str:
    """Format a report: a table of outputs at most `columns` wide, each difference, and the node behind it."""
    head = [table(_list_rows(report.outputs), columns)] if report.outputs else []
    lines = [f"{o.name}: {o.distribution or o.detail}" for o in report.outputs if o.status == "different"]
    if report.failed and report.failure is not None:
        lines.append(f"{report.failed}: {report.failure.message}")
    lines += report.part.sentences if report.part is not None else ()
    lines += report.notes
    return "\n".join([*head, *map(printable, lines), diff_summary(report)])


def diff_summary(report: DiffReport) -> str:
    """Format the engines and the counts of outputs on one line."""
    statuses = [o.status for o in report.outputs]
    listed = ", ".join(f"{statuses.count(s)} {s}" for s in ("equal", "close", "different") if s in statuses)
    result = f"{report.failed} does not run the model" if report.failed else f"outputs: {listed or 'none'}"
    return printable(f"{report.on} against {report.against}; {result}")


def _list_rows(outputs: tuple[OutputDiff, ...]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("output", "elements", "shape", "result", "absolute", "relative", "ulps")]
    for o in outputs:
        result = f"{o.status} ({o.kind})" if o.kind else o.status
        ulps = "-" if o.ulps is None else f"{o.ulps:.3g}"
        rows.append((o.name, o.element, str(list(o.shape)), result, f"{o.absolute:.2g}", f"{o.relative:.2g}", ulps))
    return rows

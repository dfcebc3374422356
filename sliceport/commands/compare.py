"""`compare`: what engines compute for the slicing nodes of a model, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sliceport import progress
from sliceport.commands.outcome import Finding, Options, Outcome, finding

if TYPE_CHECKING:
    from sliceport.engines.comparison import Comparison


def run(model: str, _output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:  # noqa: ARG001
    """Compare the slicing nodes of a model's file."""
    from sliceport.api import compare
    from sliceport.report.text import report_summary, report_text

    progress.say(f"comparing the nodes of {model}")
    report = compare(model, **options)
    return Outcome(
        is_clean=report.is_clean,
        summary=lambda: report_summary(report),
        to_json=report.to_json,
        text=lambda _, columns: report_text(report, columns=columns),
        list_findings=lambda: [each for one in report.comparisons for each in _list_findings(one)],
    )


def _list_findings(comparison: Comparison) -> list[Finding]:
    if comparison.is_clean:
        return []
    node = comparison.lowered.node
    return [
        finding(
            comparison.status, node.op_type, node.name, comparison.detail, engine=comparison.executor, defect=defect
        )
        for defect in [defect.id for defect in comparison.defects] or [""]
    ]

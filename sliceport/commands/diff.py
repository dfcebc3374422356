"""`diff`: two engines, or two models, side by side, and the node behind a difference."""

from __future__ import annotations

from pathlib import Path

from sliceport import progress
from sliceport.commands.outcome import Finding, Options, Outcome, finding
from sliceport.diffing.report import DiffReport


def run(model: str, output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:
    """Compare a model's file; write the smallest part that fails into the folder `output`, if any."""
    from sliceport.diffing.diff import diff
    from sliceport.diffing.difference import Tolerance
    from sliceport.diffing.save import save
    from sliceport.report.diff import diff_page, diff_summary, diff_text
    from sliceport.report.model_explorer import diff_node_data

    progress.say(f"comparing {model}")
    chosen = dict(options)
    page, node_data = chosen.pop("html", None), chosen.pop("model_explorer", None)  # names of files
    tolerances = {name: Tolerance(**measures) for name, measures in chosen.pop("tolerance", {}).items()}
    report = diff(model, **chosen, tolerance=tolerances)
    is_saved = output is not None and report.part is not None
    if output is not None and is_saved:
        save(report, output, overwrite=overwrite)
    files = {}
    models = [str(name) for name in (model, chosen.get("other")) if name is not None]
    if page is not None:
        files[page] = diff_page(report, models)
    if node_data is not None:
        files[node_data] = diff_node_data(report, models[-1])
    return Outcome(
        is_clean=report.is_equal,
        summary=lambda: diff_summary(report),
        to_json=report.to_json,
        text=lambda _, columns: diff_text(report, columns),
        list_findings=lambda: _list_findings(report),
        output=output / "issue.md" if output is not None and is_saved else None,
        files=files,
    )


def _list_findings(report: DiffReport) -> list[Finding]:
    if report.failure is None:
        return []
    if not report.parts:
        engine = report.on.partition(" ")[0]
        return [finding(report.failure.kind, message=report.failure.message, engine=engine)]
    return [
        finding(failure.kind, node.op_type, node.name, failure.message, engine=part.bad.engine.name, defect=defect)
        for part in report.parts
        for node, failure in [(part.case.culprit, part.case.failure)]
        for defect in [defect.id for defect in part.defects] or [""]
    ]

"""`check`: the nodes of a model that are invalid, fragile, or have a known defect on an engine."""

from __future__ import annotations

from pathlib import Path

from sliceport import progress
from sliceport.commands.outcome import Options, Outcome, finding


def run(model: str, _output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:  # noqa: ARG001
    """Check a model's file."""
    from sliceport.api import check
    from sliceport.report.check import check_text, summarize
    from sliceport.report.model_explorer import check_node_data

    progress.say(f"checking {model}")
    arguments = dict(options)
    fail_on = arguments.pop("fail_on", None)
    node_data_file = arguments.pop("model_explorer", None)
    report = check(model, **arguments)

    def result() -> dict[str, object]:
        return {"model": model, **report.to_json()}

    files = {} if node_data_file is None else {node_data_file: check_node_data(result(), model)}
    return Outcome(
        is_clean=not any(fail_on is None or one.kind in fail_on for one in report.findings),
        summary=lambda: summarize(result()),
        to_json=report.to_json,
        text=lambda verbose, columns: check_text([result()], verbose=verbose, columns=columns, hint=False),
        list_findings=lambda: [
            finding(one.kind, one.op, one.node, one.detail or one.defect.trigger, engine=engine, defect=one.defect.id)
            for one in report.findings
            for engine in [each.engine for each in report.selection.divergences_of(one.defect)] or [""]
        ],
        files=files,
    )

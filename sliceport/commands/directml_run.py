"""`directml run`: a whole model on onnxruntime's DirectML provider."""

from __future__ import annotations

from pathlib import Path

from sliceport import progress
from sliceport.commands.outcome import Options, Outcome, finding


def run(model: str, output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:
    """Run a model's file; write its outputs into the folder `output`, if any."""
    from sliceport.defects.engines import ONNXRUNTIME_DML
    from sliceport.formats import format_of
    from sliceport.report.text import run_text

    progress.say(f"running {model} on the DirectML provider")
    model_run = format_of(model).run_on_directml(model, **options)
    if output is not None:
        model_run.write(output, overwrite=overwrite)
    return Outcome(
        is_clean=model_run.is_clean,
        summary=lambda: model_run.summary,
        to_json=model_run.to_json,
        text=lambda _, columns: run_text(model_run, columns=columns),
        list_findings=lambda: [
            finding(one.kind, one.op_type, one.node, one.message, engine=ONNXRUNTIME_DML, defect=defect)
            for one in model_run.findings
            for defect in one.defects or ("",)
        ],
        output=None if output is None else output / "report.json",
    )

"""`directml run`: a whole model on onnxruntime's DirectML provider."""

from __future__ import annotations

import argparse
from pathlib import Path

from sliceport import progress
from sliceport.commands.command import Command
from sliceport.commands.options import add_inputs, replace_open_sizes, run_options
from sliceport.commands.outcome import Options, Outcome, make_finding


def _add_options(command: argparse.ArgumentParser) -> None:
    add_inputs(command)
    command.add_argument(
        "--against",
        choices=("onnxruntime-cpu",),
        help="compare with the outputs of this engine; name the nodes that differ",
    )


def _run(model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
    from sliceport.defects.engines import ONNXRUNTIME_DML
    from sliceport.formats import format_of
    from sliceport.report.text import run_text

    progress.say(f"running {model} on the DirectML provider")
    model_run = format_of(model).run_on_directml(model, **replace_open_sizes(model, options))
    if output is not None:
        model_run.write(output, overwrite=overwrite)
    return Outcome(
        is_clean=model_run.is_clean,
        summary=lambda: model_run.summary,
        to_json=model_run.to_json,
        text=lambda _, columns: run_text(model_run, columns=columns),
        list_findings=lambda: [
            make_finding(each.kind, each.op_type, each.node, each.message, engine=ONNXRUNTIME_DML, defect=defect)
            for each in model_run.findings
            for defect in each.defects or ("",)
        ],
        output=None if output is None else output / "report.json",
    )


COMMAND = Command(
    name="directml run",
    help="run whole models on onnxruntime's DirectML provider",
    add_options=_add_options,
    read_options=lambda options: run_options(options) | {"against": options.against is not None},
    run=_run,
    model=("MODEL.onnx", "the model"),
    writes="if asked",
    output="also write the outputs as .npy, and report.json",
    name_output=lambda *_: "run",
)

"""`lower`: DirectML operators for the slicing nodes of a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sliceport.commands.command import Command
from sliceport.commands.options import add_feature_level, add_input_shapes, shape_options
from sliceport.commands.outcome import Options, Outcome, make_finding
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.sandbox import progress


class Lower(Command):
    """The command `lower`."""

    name = "lower"
    help = "lower every Slice and Split to DirectML operators"
    writes = "if asked"
    output = "also write program.json, files for DxDispatch, and an annotated model"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        add_input_shapes(parser)
        add_feature_level(parser)
        parser.add_argument("--layout", metavar="NHWC", help="memory layout of inputs and outputs of slicing nodes")
        parser.add_argument("--input-layout", metavar="NHWC", help="memory layout of inputs alone")
        parser.add_argument("--output-layout", metavar="NHWC", help="memory layout of outputs alone")
        help_ = "make slices views of their input's buffer where possible, instead of copies"
        parser.add_argument("--views", action="store_true", help=help_)

    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        return {
            "feature_level": options.feature_level,
            "input_layout": options.input_layout or options.layout,
            "output_layout": options.output_layout or options.layout,
            "views": options.views,
        } | shape_options(options)

    def check_names(self, options: Options) -> None:
        FeatureLevel.parse(options["feature_level"])

    def name_output(self, model: str, options: Options) -> str:
        return "program"

    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        from sliceport.api import lower
        from sliceport.report.text import program_summary, program_text

        progress.say(f"lowering {model}")
        program = lower(model, **options)
        if output is not None:
            program.write(output, overwrite=overwrite)
        return Outcome(
            is_clean=not program.summary["refused"],
            summary=lambda: program_summary(program),
            to_json=program.to_json,
            text=lambda verbose, columns: program_text(program, verbose=verbose, columns=columns),
            list_findings=lambda: [
                make_finding(lowered.reason.code, lowered.node.op_type, lowered.node.name, lowered.reason.message)
                for lowered in program.nodes
                if lowered.reason is not None
            ],
            output=None if output is None else output / "program.json",
        )


COMMAND = Lower()

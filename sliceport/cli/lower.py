"""`sliceport lower`: what slicing nodes become on DirectML."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sliceport import progress
from sliceport.cli import console
from sliceport.cli.console import emit, say
from sliceport.cli.limits import add_limits, within_limits
from sliceport.cli.options import add_feature_level, add_input_shapes, add_model, parse_input_shapes
from sliceport.cli.parser import Commands
from sliceport.collector import collector_paused
from sliceport.json_text import to_text

if TYPE_CHECKING:
    from sliceport.directml.program import Program


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("lower", help="lower every Slice and Split to DirectML operators")
    add_model(command)
    add_limits(command)
    command.add_argument(
        "-o", "--output", metavar="DIR", help="also write program.json, DxDispatch files, annotated model"
    )
    command.add_argument("--overwrite", action="store_true", help="replace DIR if an earlier run wrote it")
    add_options(command)
    command.set_defaults(run=run)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add what says how a model is lowered."""
    add_input_shapes(command)
    add_feature_level(command)
    command.add_argument("--layout", metavar="NHWC", help="how tensors lie in memory, going in and coming out")
    command.add_argument("--input-layout", metavar="NHWC", help="the same for what is cut alone")
    command.add_argument("--output-layout", metavar="NHWC", help="the same for what comes out alone")
    command.add_argument(
        "--views", action="store_true", help="no copy where a slice can be a view of its input's buffer"
    )


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_options` found, as `sliceport.lower` takes it.

    Raises:
        UsageError: A value is not written as it must be.
    """
    return {
        "input_shapes": parse_input_shapes(options.input_shapes),
        "feature_level": options.feature_level,
        "input_layout": options.input_layout or options.layout,
        "output_layout": options.output_layout or options.layout,
        "views": options.views,
    }


def run(options: argparse.Namespace) -> bool:
    """Run the command; whether nothing is refused."""
    progress.say(f"lowering {options.model}")
    with collector_paused():  # importing makes so many objects, too, that it takes a tenth longer
        from sliceport.api import lower

        with within_limits(options):
            program = lower(options.model, **read_options(options))
            text = _render(program, options)
            if options.output is not None:
                program.write(options.output, overwrite=options.overwrite)
                say(f"wrote {options.output}")
    emit(text)
    return not program.summary["refused"]


def _render(program: Program, options: argparse.Namespace) -> str:
    """What is printed. A Split that takes the place of many nodes stands with each of them."""
    if options.format == "json":
        return to_text(program.to_json())
    from sliceport.report.text import program_summary, program_text

    if options.quiet:
        return program_summary(program)
    return program_text(program, verbose=options.verbose > 0, columns=console.width())

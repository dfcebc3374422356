"""`sliceport compare`: what engines compute for slicing nodes, bit for bit."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport import progress
from sliceport.cli import console
from sliceport.cli.console import emit, emit_json
from sliceport.cli.limits import add_limits, within_limits
from sliceport.cli.options import (
    add_feature_level,
    add_input_shapes,
    add_inputs,
    add_model,
    load_inputs,
    parse_names,
    run_options,
)
from sliceport.cli.parser import Commands, Parser, list_names

_SECONDS, _MEMORY = 60.0, 2**30
"""For what it does besides running an ONNX model, which has limits of its own."""


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("compare", help="run lowered nodes and compare them, bit for bit")
    add_model(command)
    add_limits(command, _SECONDS, _MEMORY)
    add_options(command)
    command.set_defaults(run=run)


def add_options(command: Parser) -> None:
    """Add what says how a model is compared."""
    add_input_shapes(command)
    add_feature_level(command)
    command.add_argument("--executors", metavar="A,B", help="who takes part; see below")
    add_inputs(command)
    command.listing = list_executors


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_options` found, as `sliceport.compare` takes it, but inputs by the names of files.

    Raises:
        UsageError: A value is not written as it must be.
    """
    executors = parse_names(options.executors, "--executors")
    return {"executors": executors, "feature_level": options.feature_level} | run_options(options)


def list_executors() -> str:
    """The engines that take part in comparisons, by format."""
    from sliceport.engines.registry import engines_of
    from sliceport.formats import formats

    blocks = []
    for one in formats().values():
        name, description = one.reference
        lines = {name: description} | {
            engine.name: engine.description for engine in engines_of(one.name).values() if engine.name != name
        }
        by_default = ", ".join(one.default_executors)
        blocks.append(f"executors of {one.title} models, by default\n{by_default}:\n{list_names(lines)}")
    return "\n\n".join(blocks)


def run(options: argparse.Namespace) -> bool:
    """Run the command; whether all are equal."""
    from sliceport.api import compare
    from sliceport.report.text import report_summary, report_text

    progress.say(f"comparing the nodes of {options.model}")
    arguments = load_inputs(read_options(options))
    with within_limits(options):
        report = compare(options.model, **arguments)
    if options.format == "json":
        emit_json(report.to_json())
    elif options.quiet:
        emit(report_summary(report))
    else:
        emit(report_text(report, columns=console.width()))
    return report.is_clean

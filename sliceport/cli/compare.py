"""`sliceport compare`: outputs of several engines for slicing nodes, bit for bit."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.options import add_feature_level, add_input_shapes, add_inputs, parse_names, run_options
from sliceport.cli.parser import Commands, Parser, list_names
from sliceport.cli.work import add_command


def add(commands: Commands) -> None:
    """Add the command."""
    add_command(commands, "compare", add_options, read_options)


def add_options(command: Parser) -> None:
    """Add the options for comparing engines on a model."""
    add_input_shapes(command)
    add_feature_level(command)
    command.add_argument("--executors", metavar="A,B", help="the executors to compare, separated by commas; see below")
    add_inputs(command)
    command.listing = list_executors


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `add_options` as arguments of `sliceport.compare`, but inputs as names of files."""
    executors = parse_names(options.executors, "--executors")
    return {"executors": executors, "feature_level": options.feature_level} | run_options(options)


def list_executors() -> str:
    """Format the engines that take part in comparisons, by format."""
    from sliceport.engines.registry import engines_of
    from sliceport.formats import formats

    blocks = []
    for each in formats().values():
        name, description = each.reference
        lines = {name: description} | {
            engine.name: engine.description for engine in engines_of(each.name).values() if engine.name != name
        }
        by_default = ", ".join(each.default_executors)
        blocks.append(f"executors of {each.title} models, by default\n{by_default}:\n{list_names(lines)}")
    return "\n\n".join(blocks)

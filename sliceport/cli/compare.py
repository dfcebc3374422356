"""`sliceport compare`: what engines compute for slicing nodes, bit for bit."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.limits import add_limits
from sliceport.cli.options import (
    add_feature_level,
    add_input_shapes,
    add_inputs,
    add_model,
    parse_names,
    run_options,
)
from sliceport.cli.parser import Commands, Parser, list_names
from sliceport.cli.work import set_work


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("compare", help="run lowered nodes and compare them, bit for bit")
    add_model(command)
    add_limits(command)
    add_options(command)
    set_work(command, "compare", read_options)


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

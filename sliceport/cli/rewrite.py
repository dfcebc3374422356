"""`sliceport rewrite`: simpler slicing, the same values."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.options import add_input_shapes, add_inputs, parse_names, run_options
from sliceport.cli.parser import Commands, Parser, list_names
from sliceport.cli.work import add_command


def add(commands: Commands) -> None:
    """Add the command."""
    add_command(
        commands,
        "rewrite",
        add_options,
        read_options,
        model=("MODEL.onnx", "the model"),
        verbose="also list the nodes that passes skip, and why",
    )


def add_options(command: Parser) -> None:
    """Add the options for rewriting a model."""
    command.add_argument("--passes", metavar="A,B", help="which passes; see below")
    command.add_argument(
        "--simplify",
        metavar="OPTIMIZERS",
        help="also simplify all other nodes, by an optimizer of whole graphs or several (A,B); see below",
    )
    command.add_argument(
        "--verify", choices=("onnxruntime-cpu",), help="run old and new model on onnxruntime's CPU provider"
    )
    add_input_shapes(command)
    add_inputs(command)
    command.listing = list_passes


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `add_options` as arguments of `sliceport.rewrite`, but inputs as names of files."""
    passes = parse_names(options.passes, "--passes")
    simplify = parse_names(options.simplify or None, "--simplify") or options.simplify is not None
    return {"passes": passes, "simplify": simplify, "verify": options.verify is not None} | run_options(options)


def list_passes() -> str:
    """Format the passes, those that run by default first, and the optimizers."""
    from sliceport.formats import formats

    blocks = []
    for each in formats().values():
        by_default, by_name = each.passes()
        titled = {"passes, by default all of these": by_default, "by name only": by_name, "optimizers": each.optimizers}
        blocks += [f"{title}:\n{list_names(lines)}" for title, lines in titled.items() if lines]
    return "\n\n".join(blocks).replace("`", "")

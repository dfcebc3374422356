"""`sliceport rewrite`: simpler slicing, the same values."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.change import add_change_options, add_output, read_change_options
from sliceport.cli.options import parse_names
from sliceport.cli.parser import Commands, Parser, list_names
from sliceport.cli.work import set_work


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("rewrite", help="simplify the slicing of an ONNX model")
    command.add_argument("model", metavar="MODEL.onnx", help="the model")
    add_output(command, verbose="also list the nodes that passes skip, and why")
    add_options(command)
    set_work(command, "rewrite", read_options)


def add_options(command: Parser) -> None:
    """Add what says how a model is rewritten."""
    command.add_argument("--passes", metavar="A,B", help="which passes; see below")
    command.add_argument(
        "--simplify",
        metavar="OPTIMIZERS",
        help="also simplify all else, by an optimizer of whole graphs or several (A,B); see below",
    )
    add_change_options(command, verify="run both on onnxruntime's CPU provider and compare")
    command.listing = list_passes


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_options` found, as `sliceport.rewrite` takes it, but inputs by the names of files.

    Raises:
        UsageError: A value is not written as it must be.
    """
    passes = parse_names(options.passes, "--passes")
    simplify = parse_names(options.simplify or None, "--simplify") or options.simplify is not None
    return {"passes": passes, "simplify": simplify} | read_change_options(options)


def list_passes() -> str:
    """The passes, those that run by default first, and the optimizers."""
    from sliceport.formats import formats

    blocks = []
    for one in formats().values():
        by_default, by_name = one.passes()
        if by_default:
            blocks.append(f"passes, by default all of these:\n{list_names(by_default)}")
        if by_name:
            blocks.append(f"by name only:\n{list_names(by_name)}")
        if one.optimizers:
            blocks.append(f"optimizers:\n{list_names(one.optimizers)}")
    return "\n\n".join(blocks).replace("`", "")

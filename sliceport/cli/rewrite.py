"""`sliceport rewrite`: simpler slicing, the same values."""

from __future__ import annotations

import argparse

from sliceport.cli.change import add_change_options, change_options, emit_result
from sliceport.cli.options import parse_names
from sliceport.cli.parser import Commands, list_names


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("rewrite", help="simplify the slicing of an ONNX model")
    command.add_argument("model", metavar="MODEL.onnx", help="the model")
    command.add_argument("--passes", metavar="A,B", help="which passes; see below")
    command.add_argument(
        "--simplify",
        metavar="OPTIMIZERS",
        help="also simplify all else, by an optimizer of whole graphs or several (A,B); see below",
    )
    add_change_options(
        command,
        verify="run both on onnxruntime's CPU provider and compare",
        verbose="also list the nodes that passes skip, and why",
    )
    command.listing = list_passes
    command.set_defaults(run=run)


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


def run(options: argparse.Namespace) -> bool:
    """Run the command; whether the file was written."""
    from sliceport.api import rewrite

    passes = parse_names(options.passes, "--passes")
    simplify = parse_names(options.simplify or None, "--simplify") or options.simplify is not None
    result = rewrite(options.model, options.output, passes, simplify=simplify, **change_options(options))
    emit_result(result, options)
    return result.is_clean

"""What `sliceport rewrite` and `sliceport harden` have in common: a model in, a changed model out."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.arguments import read_max_nodes
from sliceport.cli.console import emit, emit_json, say
from sliceport.cli.limits import add_limits
from sliceport.cli.options import add_format, add_input_shapes, add_inputs, add_verbose, run_options
from sliceport.formats import Result


def add_output(command: argparse.ArgumentParser, verbose: str) -> None:
    """Add where the changed model goes and how the result is printed, with a line about --verbose."""
    command.add_argument("-o", "--output", required=True, metavar="OUT", help="where the changed model goes")
    command.add_argument("--overwrite", action="store_true", help="replace OUT and its weights")
    add_format(command)
    add_verbose(command, verbose)
    add_limits(command)


def add_change_options(command: argparse.ArgumentParser, verify: str) -> None:
    """Add what says how the model is changed, with a line about --verify."""
    command.add_argument("--verify", action="store_true", help=verify)
    command.add_argument(
        "--max-nodes",
        type=int,
        default=0,
        metavar="N",
        help="refuse a model with more nodes; default 0, for any number",
    )
    add_input_shapes(command)
    add_inputs(command)


def read_change_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_change_options` found, as Python functions take it, but inputs by the names of files.

    Raises:
        UsageError: A value is not written as it must be.
    """
    most = read_max_nodes(options.max_nodes)  # 0 here: time and memory are limited
    return {"verify": options.verify, "max_nodes": most} | run_options(options)


def emit_result(result: Result, options: argparse.Namespace) -> None:
    """Print what became of the model."""
    if result.is_written:
        say(f"wrote {options.output}")
    else:
        say(f"did not write {options.output}, because the rewritten model computes something else")
    if options.format == "json":
        emit_json(result.to_json())
    else:
        emit(result.text(verbose=options.verbose > 0))

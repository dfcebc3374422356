"""Options that `sliceport rewrite` and `sliceport harden` share."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.limits import add_limits
from sliceport.cli.options import add_format, add_input_shapes, add_inputs, add_verbose, run_options


def add_output(command: argparse.ArgumentParser, verbose: str) -> None:
    """Add the output, the limits and the form of the result; `verbose` is the help of --verbose."""
    command.add_argument("-o", "--output", required=True, metavar="OUT", help="where the changed model goes")
    command.add_argument("--overwrite", action="store_true", help="replace OUT and its weights")
    add_format(command)
    add_verbose(command, verbose)
    add_limits(command)


def add_change_options(command: argparse.ArgumentParser, verify: str) -> None:
    """Add the options of the change; `verify` is the help of --verify."""
    command.add_argument("--verify", action="store_true", help=verify)
    add_input_shapes(command)
    add_inputs(command)


def read_change_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that `add_change_options` declared, as Python functions take them, inputs by name of file.

    Raises:
        UsageError: A value is malformed.
    """
    return {"verify": options.verify} | run_options(options)

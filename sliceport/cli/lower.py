"""`sliceport lower`: what slicing nodes become on DirectML."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.limits import add_limits
from sliceport.cli.options import add_feature_level, add_input_shapes, add_model, parse_input_shapes
from sliceport.cli.parser import Commands
from sliceport.cli.work import set_work


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
    set_work(command, "lower", read_options)


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

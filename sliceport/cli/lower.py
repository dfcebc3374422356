"""`sliceport lower`: DirectML operators for slicing nodes."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.options import add_feature_level, add_input_shapes, parse_input_shapes
from sliceport.cli.parser import Commands
from sliceport.cli.work import add_command


def add(commands: Commands) -> None:
    """Add the command."""
    add_command(
        commands,
        "lower",
        add_options,
        read_options,
        output="also write program.json, DxDispatch files, annotated model",
    )


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options for lowering a model."""
    add_input_shapes(command)
    add_feature_level(command)
    command.add_argument("--layout", metavar="NHWC", help="memory layout of inputs and outputs of slicing nodes")
    command.add_argument("--input-layout", metavar="NHWC", help="the same for inputs alone")
    command.add_argument("--output-layout", metavar="NHWC", help="the same for outputs alone")
    command.add_argument(
        "--views", action="store_true", help="no copy where a slice can be a view of its input's buffer"
    )


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `add_options` as arguments of `sliceport.lower`."""
    return {
        "input_shapes": parse_input_shapes(options.input_shapes),
        "feature_level": options.feature_level,
        "input_layout": options.input_layout or options.layout,
        "output_layout": options.output_layout or options.layout,
        "views": options.views,
    }

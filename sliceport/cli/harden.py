"""`sliceport harden`: a model without the slicing that an engine computes wrongly."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.options import add_input_shapes, add_inputs, run_options
from sliceport.cli.parser import Commands
from sliceport.cli.work import add_command
from sliceport.formats import all_targets


def add(commands: Commands) -> None:
    """Add the command."""
    model = ("MODEL", "ONNX; with --target openvino-cpu also OpenVINO IR (.xml)")
    add_command(commands, "harden", add_options, read_options, model=model)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options for hardening a model."""
    command.add_argument(
        "--target", choices=all_targets(), help="default openvino-cpu for .xml files, else onnxruntime-dml"
    )
    command.add_argument(
        "--verify",
        choices=("onnxruntime-cpu", "onnxruntime-dml"),
        help="run old and new model on onnxruntime's CPU provider; =onnxruntime-dml: on the real DirectML, too",
    )
    add_input_shapes(command)
    add_inputs(command)


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `add_options` as arguments of `sliceport.harden`, but inputs as names of files."""
    return {"target": options.target, "verify": options.verify or False} | run_options(options)

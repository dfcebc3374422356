"""`sliceport harden`: a model without the slicing that an engine computes wrongly."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.options import add_input_shapes, add_inputs, parse_names, run_options
from sliceport.cli.parser import Commands
from sliceport.cli.work import add_command
from sliceport.defects.profiles import FORMS, READINGS
from sliceport.formats import all_targets


def add(commands: Commands) -> None:
    """Add the command."""
    model = ("MODEL", "ONNX; with --target openvino-cpu also OpenVINO IR (.xml)")
    add_command(commands, "harden", add_options, read_options, model=model)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options for hardening a model."""
    command.add_argument(
        "--target",
        choices=all_targets(),
        metavar="TARGET",
        help=f"default openvino-cpu for .xml files, else onnxruntime-dml; one of {', '.join(all_targets())}",
    )
    command.add_argument(
        "--without",
        metavar="FORMS",
        help="for portable and the targets after it: comma-separated forms that the engine lacks, too, of "
        + "; ".join(f"{name}: {line}" for name, line in FORMS.items()),
    )
    command.add_argument(
        "--read-as",
        choices=READINGS,
        help="what a backward Slice to the greatest integer means, which onnxruntime reads unlike the standard",
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
    form = {"without": parse_names(options.without, "--without") or (), "read_as": options.read_as}
    return {"target": options.target, "verify": options.verify or False} | form | run_options(options)

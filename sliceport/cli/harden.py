"""`sliceport harden`: without the slicing that an engine computes wrongly."""

from __future__ import annotations

import argparse

from sliceport.cli.change import add_change_options, change_options, emit_result
from sliceport.cli.parser import Commands
from sliceport.formats import all_targets


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("harden", help="rewrite the slicing that an engine computes wrongly")
    command.add_argument("model", metavar="MODEL", help="ONNX; for openvino-cpu OpenVINO IR (.xml), too")
    command.add_argument(
        "--target", choices=all_targets(), help="default openvino-cpu for .xml files, else onnxruntime-dml"
    )
    add_change_options(command, verify="onnxruntime-dml: run both on the real provider", verbose="print more")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Run the command; whether everything that was found is right now."""
    from sliceport.api import harden

    result = harden(options.model, options.output, options.target, **change_options(options))
    emit_result(result, options)
    return result.is_clean

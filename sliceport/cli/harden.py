"""`sliceport harden`: without the slicing that an engine computes wrongly."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.change import add_change_options, add_output, emit_result, read_change_options
from sliceport.cli.limits import within_limits
from sliceport.cli.options import load_inputs
from sliceport.cli.parser import Commands
from sliceport.formats import all_targets


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("harden", help="rewrite the slicing that an engine computes wrongly")
    command.add_argument("model", metavar="MODEL", help="ONNX; for openvino-cpu OpenVINO IR (.xml), too")
    add_output(command, verbose="print more")
    add_options(command)
    command.set_defaults(run=run)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add what says how a model is hardened."""
    command.add_argument(
        "--target", choices=all_targets(), help="default openvino-cpu for .xml files, else onnxruntime-dml"
    )
    add_change_options(command, verify="onnxruntime-dml: run both on the real provider")


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_options` found, as `sliceport.harden` takes it, but inputs by the names of files.

    Raises:
        UsageError: A value is not written as it must be.
    """
    return {"target": options.target} | read_change_options(options)


def run(options: argparse.Namespace) -> bool:
    """Run the command; whether everything that was found is right now."""
    from sliceport.api import harden

    arguments = load_inputs(read_options(options))
    with within_limits(options):
        result = harden(options.model, options.output, overwrite=options.overwrite, **arguments)
    emit_result(result, options)
    return result.is_clean

"""`sliceport harden`: without the slicing that an engine computes wrongly."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.change import add_change_options, add_output, read_change_options
from sliceport.cli.parser import Commands
from sliceport.cli.work import set_work
from sliceport.formats import all_targets


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("harden", help="rewrite the slicing that an engine computes wrongly")
    command.add_argument("model", metavar="MODEL", help="ONNX; for openvino-cpu OpenVINO IR (.xml), too")
    add_output(command, verbose="print more")
    add_options(command)
    set_work(command, "harden", read_options)


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

"""`sliceport diff`: two engines, or two models, side by side."""

from __future__ import annotations

import argparse
from typing import Any

from sliceport.cli.options import add_inputs, add_open_shapes, parse_open_shapes, parse_seconds, run_options
from sliceport.cli.pages import add_pages, read_pages
from sliceport.cli.parser import Commands, Parser, list_names
from sliceport.cli.work import add_command
from sliceport.errors import UsageError


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "diff",
        add_options,
        _read_both,
        model=("A", "ONNX, or OpenVINO IR (.xml)"),
        output="also write the smallest model that differs, its data, run.py and issue.md",
        output_flags=("--save",),
    )
    parser.add_argument("other", nargs="?", metavar="B", help="a second model, which should compute the same")
    add_pages(parser)


def add_options(command: Parser) -> None:
    """Add the options for comparing whole models."""
    command.add_argument("--on", metavar="ENGINE", help="the engine in question, or that of A; see below")
    command.add_argument(
        "--against", metavar="ENGINE", help="the engine of what is expected, that of B, or a folder of recorded outputs"
    )
    add_open_shapes(command)
    add_inputs(command)
    command.add_argument("--seeds", type=int, default=1, metavar="N", help="sets of random inputs to try; default 1")
    command.add_argument(
        "--tolerance",
        action="append",
        default=[],
        metavar="[NAME:]abs=X,rel=Y,ulp=Z",
        help="what is accepted of computed outputs, or of one; one measure suffices; default: by element type",
    )
    command.add_argument("--budget", default="0", metavar="S", help="seconds for the search of the node")
    command.listing = list_engines


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `add_options` as arguments of `diff`, but inputs as names of files."""
    if options.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, got {options.seeds}.")
    shapes, size = parse_open_shapes(options.input_shapes)
    options.input_shapes = shapes
    return {
        "on": options.on,
        "against": options.against,
        "seeds": options.seeds,
        "tolerance": dict(map(_parse_tolerance, options.tolerance)),
        "budget": parse_seconds(options.budget, "--budget"),
        "open_sizes": size,
    } | run_options(options)


def _read_both(options: argparse.Namespace) -> dict[str, Any]:
    return {"other": options.other} | read_pages(options) | read_options(options)


def _parse_tolerance(text: str) -> tuple[str, dict[str, float]]:
    """Return the name of the output, empty for all others, and the measures of its tolerance."""
    output, _, measures = text.rpartition(":")
    names = {"abs": "absolute", "rel": "relative", "ulp": "ulps"}
    try:
        pairs = [part.split("=") for part in measures.split(",")]
        return output, {names[name]: float(number) for name, number in pairs}
    except (KeyError, ValueError):
        form = "abs=X,rel=Y,ulp=Z, each optional, after NAME: for one output"
        raise UsageError(f"--tolerance must be written {form}, got {text!r}.") from None


def list_engines() -> str:
    """Format the engines that run whole models, with their options."""
    from sliceport.engines.registry import model_engines

    lines = {}
    for name, engine in model_engines().items():
        options = "; ".join(f"{key}={line}" for key, line in engine.options.items())
        lines[name] = f"{', '.join(engine.model_formats)}: {engine.description}{f' ({options})' * bool(options)}"
    return f"engines, with options as in onnxruntime-cpu:level=basic:\n{list_names(lines)}"

"""The description of a command that works on one model: its options and its work."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sliceport.commands.outcome import Options, Outcome
from sliceport.formats import Format

NAMES = ("check", "lower", "compare", "diff", "harden", "rewrite", "probe")
"""The names of the commands on one model. Each has a module in this package."""
Run = Callable[[str, Path | None, Options, bool], Outcome]
"""The work of a command. The arguments are the model's file, the output or None, the options, and whether to overwrite.

The output is not None if the command always writes. An error of any class may mean that the model is unsuitable.
"""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that works on one model.

    Attributes:
        name: Its word on the command line.
        help: Its line in the help of the command line.
        add_options: Adds the options that the command line and batches share.
        read_options: Returns these options as `Options`, but with names of files for `inputs`. Raises UsageError.
        run: The work.
        model: The placeholder and the help of the model.
        other: The help of a second model; empty if the command takes one model.
        writes: When the command writes a file for a model.
        output: The help of --output.
        output_flags: The spellings of --output.
        check_names: Checks names in the options that depend on what is installed. Raises UsageError. A batch calls it
            before it reads a model, because a wrong name would fail for each model.
        reads: Returns whether the command can run on models of a format.
        name_output: Returns the name of the file or folder that the command writes for a model in a batch.
        has_pages: Whether the command line has options for pages, which `run` finds in `html` and `model_explorer`.
        verbose: The help of --verbose.
        listing: Returns the end of the help, such as a list of passes; None if the help has no such end.
        modules: Modules that a batch imports ahead of the first model, if they are installed.
    """

    name: str
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    read_options: Callable[[argparse.Namespace], dict[str, Any]]
    run: Run
    model: tuple[str, str] = ("MODEL", "ONNX, or OpenVINO IR (.xml)")
    other: str = ""
    writes: Literal["always", "if asked", "never"] = "never"
    output: str = "the file to write the changed model to"
    output_flags: Sequence[str] = ("-o", "--output")
    check_names: Callable[[Options], object] = lambda _: None
    reads: Callable[[Format], bool] = lambda _: True
    name_output: Callable[[str, Options], str] = lambda *_: ""
    has_pages: bool = False
    verbose: str = "print more"
    listing: Callable[[], str] | None = None
    modules: tuple[str, ...] = ("sliceport.api",)


def load(name: str) -> Command:
    """Return the command called `name`, one of `NAMES`."""
    command: Command = import_module(f"sliceport.commands.{name}").COMMAND
    return command

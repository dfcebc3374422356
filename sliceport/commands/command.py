"""The description of a command that works on one model: its options and its work."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sliceport.commands.outcome import Options, Outcome
from sliceport.formats import Format

NAMES = ("check", "lower", "compare", "diff", "harden", "rewrite", "probe")
"""The names of the commands on one model. Each has a module in this package."""


class Command(ABC):
    """A command that works on one model.

    Attributes:
        name: Its word on the command line.
        help: Its line in the help of the command line.
        model: The placeholder and the help of the model.
        other: The help of a second model; empty if the command takes one model.
        writes: When the command writes a file for a model.
        output: The help of --output.
        output_flags: The spellings of --output.
        has_pages: Whether the command line has options for pages, which `run` finds in `html` and `model_explorer`.
        verbose: The help of --verbose.
        modules: Modules that a batch imports ahead of the first model, if they are installed.
    """

    name: str
    help: str
    model = ("MODEL", "ONNX, or OpenVINO IR (.xml)")
    other = ""
    writes: Literal["always", "if asked", "never"] = "never"
    output = "the file to write the changed model to"
    output_flags = ("-o", "--output")
    has_pages = False
    verbose = "print more"
    modules: tuple[str, ...] = ("sliceport.api",)

    @abstractmethod
    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that the command line and batches share."""

    @abstractmethod
    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        """Return these options as `Options`, but with names of files for `inputs`. Raise a UsageError for a bad one."""

    @abstractmethod
    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        """Run the command on the file of a model.

        `output` is not None if the command always writes. An error of any class may mean that the model is unsuitable.
        """

    def check_names(self, options: Options) -> None:
        """Check names in the options that depend on what is installed. Raise a UsageError for a wrong one.

        A batch calls it before it reads a model, because a wrong name would fail for each model.
        """
        return

    def list_choices(self) -> str:
        """Return the end of the help, such as a list of passes; empty if the help has no such end."""
        return ""

    def reads(self, format_: Format) -> bool:
        """Return whether the command can run on models of a format."""
        return True

    def name_output(self, model: str, options: Options) -> str:
        """Return the name of the file or folder that the command writes for a model in a batch."""
        return self.name


def load(name: str) -> Command:
    """Return the command called `name`, one of `NAMES`."""
    command: Command = import_module(f"sliceport.commands.{name}").COMMAND
    return command

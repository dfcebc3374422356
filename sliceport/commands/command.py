"""The table of the commands that work on one model."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sliceport.commands.outcome import Options, Outcome


@dataclass(frozen=True)
class Command:
    """A command that works on one model.

    Attributes:
        name: The words of the command line.
        help: Its line in the help of the command line.
        module: The module in this package that has its `run`.
        output: The name of the file or folder that a batch lets it write; empty if it depends on the model.
        writes: Whether the command writes a file for a model.
        takes_inputs: Whether it takes arrays for inputs; a batch leaves out those of a manifest otherwise.
        modules: Modules that a batch imports ahead of the first model, if they are installed.
    """

    name: str
    help: str
    module: str
    output: str = ""
    writes: Literal["always", "if asked", "never"] = "never"
    takes_inputs: bool = True
    modules: tuple[str, ...] = ("sliceport.api",)

    def run(self, model: str, output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:
        """Run the command on a model's file.

        Args:
            model: The file.
            output: The file or folder to write; None writes no file.
            options: See `Options`.
            overwrite: Whether to replace `output`.

        Raises:
            Exception: The model cannot be worked on.
        """
        outcome: Outcome = self._load().run(model, output, options, overwrite=overwrite)
        return outcome

    def name_output(self, model: str, options: Options) -> str:
        """Return the name of the file or folder that a batch lets the command write."""
        return self.output or str(self._load().name_output(model, options))

    def _load(self) -> Any:
        return import_module(f"sliceport.commands.{self.module}")


COMMANDS = {
    command.name: command
    for command in (
        Command(
            "check", "find nodes that are invalid, fragile, or that an engine gets wrong", "check", takes_inputs=False
        ),
        Command(
            "lower",
            "lower every Slice and Split to DirectML operators",
            "lower",
            output="program",
            writes="if asked",
            takes_inputs=False,
        ),
        Command(
            "compare",
            "run lowered nodes and compare them, bit for bit",
            "compare",
            modules=("sliceport.api", "sliceport.engines.comparison"),
        ),
        Command(
            "diff",
            "compare whole models on two engines, and find the first node that differs",
            "diff",
            output="diff",
            writes="if asked",
            modules=("sliceport.diffing.diff",),
        ),
        Command("harden", "rewrite the nodes that an engine computes wrongly", "harden", writes="always"),
        Command("rewrite", "simplify the slicing of ONNX models", "rewrite", output="model.onnx", writes="always"),
        Command(
            "directml run",
            "run whole models on onnxruntime's DirectML provider",
            "directml_run",
            output="run",
            writes="if asked",
        ),
    )
}

"""`rewrite`: a model with simpler slicing and the same values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sliceport.commands.command import Command
from sliceport.commands.options import add_inputs, format_descriptions, parse_names, run_options
from sliceport.commands.outcome import Options, Outcome, make_finding, outcome_of_change
from sliceport.errors import check_names
from sliceport.formats import Format, formats


class Rewrite(Command):
    """The command `rewrite`."""

    name = "rewrite"
    help = "simplify the slicing of ONNX models"
    model = ("MODEL.onnx", "the model")
    writes = "always"
    verbose = "also list the nodes that passes skip, and why"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--passes", metavar="A,B", help="the passes to run; see below")
        parser.add_argument(
            "--simplify", action="store_true", help="also simplify all other nodes, by onnxscript's optimizer"
        )
        parser.add_argument(
            "--verify",
            choices=("", "onnxruntime-cpu"),  # `normalize_words` writes --verify without an engine as `--verify=`
            metavar="ENGINE",
            help="compare the outputs of the old and the new model on onnxruntime's CPU provider",
        )
        add_inputs(parser)

    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        passes = parse_names(options.passes, "--passes")
        verify = options.verify is not None
        return {"passes": passes, "simplify": options.simplify, "verify": verify} | run_options(options)

    def check_names(self, options: Options) -> None:
        passes = [name for format_ in formats().values() for names in format_.passes() for name in names]
        check_names("pass", options["passes"] or (), passes)

    def list_choices(self) -> str:
        """Format the passes of each model format. Passes that run by default come first."""
        blocks = []
        titles = ("passes, which all run by default", "passes that run only if named")
        for format_ in formats().values():
            lists = zip(titles, format_.passes(), strict=True)
            blocks += [f"{title}:\n{format_descriptions(lines)}" for title, lines in lists if lines]
        return "\n\n".join(blocks).replace("`", "")  # a terminal does not format the names in backticks

    def reads(self, format_: Format) -> bool:
        return any(format_.passes())

    def name_output(self, model: str, options: Options) -> str:
        return "model.onnx"

    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        from sliceport.api import rewrite

        assert output is not None  # -o is required, because `COMMAND.writes` is "always"
        result = rewrite(model, output, overwrite=overwrite, **options)
        return outcome_of_change(
            result,
            output,
            lambda: [
                make_finding(kind, node["op"], node["node"], node["reason"])
                for kind in ("contested", "invalid")
                for node in result.to_json()[kind]
            ],
        )


COMMAND = Rewrite()

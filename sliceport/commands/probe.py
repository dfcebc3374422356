"""`probe`: a folder to run on another machine, to find the node that its device computes wrongly."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sliceport.commands.command import Command
from sliceport.commands.options import add_inputs, run_options
from sliceport.commands.outcome import Options, Outcome


class Probe(Command):
    """The command `probe`."""

    name = "probe"
    help = "write a folder to run on another machine, to find the node that its device computes wrongly"
    writes = "always"
    output = "the folder to write"
    modules = ("sliceport.probe.folder",)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--against", metavar="ENGINE", help="the engine that computes the expected outputs; see diff --help"
        )
        add_inputs(parser)
        help_ = "names: replace all names; weights: also replace the weights by random ones of a similar distribution"
        parser.add_argument("--anonymise", choices=("names", "weights"), default="", help=help_)

    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        return run_options(options) | {"against": options.against, "anonymise": options.anonymise}

    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        from sliceport.probe.folder import MARK, probe

        assert output is not None  # -o is required, because `COMMAND.writes` is "always"
        written = probe(model, output, **options, overwrite=overwrite)
        return Outcome(
            is_clean=True,
            summary=lambda: written.text,
            to_json=written.to_json,
            text=lambda *_: f"{written.text}\ncopy {output} to the device and run probe.py there; see its --help",
            list_findings=list,
            output=output / MARK,
        )


COMMAND = Probe()

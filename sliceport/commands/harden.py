"""`harden`: a model without the slicing that an engine computes wrongly."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sliceport.commands.command import Command
from sliceport.commands.options import VERIFIERS, add_inputs, parse_names, run_options
from sliceport.commands.outcome import Finding, Options, Outcome, make_finding, outcome_of_change
from sliceport.defects.profiles import FORMS, READINGS
from sliceport.formats import all_targets, format_of, formats
from sliceport.hardening import state_reason


class Harden(Command):
    """The command `harden`."""

    name = "harden"
    help = "rewrite the nodes that an engine computes wrongly"
    model = ("MODEL", "ONNX; with --target openvino-cpu also OpenVINO IR (.xml)")
    writes = "always"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--target",
            choices=all_targets(),
            metavar="TARGET",
            help=f"default openvino-cpu for .xml files, else onnxruntime-dml; one of {', '.join(all_targets())}",
        )
        forms = "; ".join(f"{name}: {line}" for name, line in FORMS.items())
        parser.add_argument(
            "--without",
            metavar="FORMS",
            help="for all targets but onnxruntime-dml and openvino-cpu: further forms that the engine lacks, "
            f"separated by commas ({forms})",
        )
        parser.add_argument(
            "--read-as",
            choices=READINGS,
            help="for the same targets as --without: how the engine reads a Slice with a negative step and the "
            "greatest integer as its end; by default, such a Slice is not rewritten",
        )
        parser.add_argument(
            "--verify",
            choices=("", *VERIFIERS),  # `normalize_words` writes --verify without an engine as `--verify=`
            metavar="ENGINE",
            help="compare the outputs of the old and the new model on onnxruntime's CPU provider, or for openvino-cpu "
            "on OpenVINO; =onnxruntime-dml: also on the real DirectML",
        )
        add_inputs(parser)

    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        form = {"without": parse_names(options.without, "--without") or (), "read_as": options.read_as}
        # `options.verify` is None without --verify, empty for --verify without an engine, and otherwise the engine.
        verify = {None: False, "": True}.get(options.verify, options.verify)
        return {"target": options.target, "verify": verify} | form | run_options(options)

    def name_output(self, model: str, options: Options) -> str:
        """Return a file name with a suffix of the target's format or, by default, of the model's format."""
        by_target = [format_ for format_ in formats().values() if options.get("target") in format_.targets]
        return f"model{(by_target[0] if by_target else format_of(model)).suffixes[0]}"

    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        from sliceport.api import harden

        assert output is not None  # -o is required, because `COMMAND.writes` is "always"
        result = harden(model, output, overwrite=overwrite, **options)
        return outcome_of_change(result, output, lambda: _list_changes(result.to_json()))


def _list_changes(data: Mapping[str, Any]) -> list[Finding]:
    """Return findings about rewritten, unfixed and invalid nodes: one for each defect, or one without a defect."""
    return [
        make_finding(
            "not fixed" if change["replacement"] is None else "rewritten",
            change["op"],
            change["node"],
            defect["reason"],
            engine=data["target"],
            defect=defect["id"],
        )
        for change in data["changes"]
        # A node without a defect is rewritten because the target needs another form.
        for defect in change["defects"] or [{"id": "", "reason": state_reason(data["target"])}]
    ] + [make_finding("invalid", node["op"], node["node"], node["reason"]) for node in data["invalid"]]


COMMAND = Harden()

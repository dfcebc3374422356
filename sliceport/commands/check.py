"""`check`: the nodes of a model that are invalid, fragile, or have a known defect on an engine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sliceport.checking import FAILING, KINDS, NodeFinding, Selection
from sliceport.commands.command import Command
from sliceport.commands.options import add_input_shapes, parse_pairs, shape_options
from sliceport.commands.outcome import Finding, Options, Outcome, make_finding
from sliceport.errors import check_names
from sliceport.sandbox import progress


class Check(Command):
    """The command `check`."""

    name = "check"
    help = "find nodes that are invalid, fragile, or that an engine gets wrong"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        add_input_shapes(parser)
        parser.add_argument(
            "--engines",
            type=_parse_list,
            metavar="NAMES",
            help="engines to check for, such as onnxruntime-dml,openvino; default: the engines that sliceport is "
            "tested with (-v lists them); 'all' adds engines whose defects are known only from reports of users",
        )
        help_ = "versions of engines, as in openvino=2025.2; defects that they lack are left out; default: the "
        help_ += (
            "installed version of each engine or, if it is not installed, the newest one that the table of defects has"
        )
        parser.add_argument("--engine-versions", type=_parse_list, default=[], metavar="NAME=VERSION", help=help_)
        help_ = f"kinds of findings that lead to exit status 1, of {','.join(KINDS)}; default {','.join(FAILING)}: a "
        help_ += "fragile node is right for the sizes that most models run with"
        parser.add_argument("--fail-on", type=_parse_list, default=list(FAILING), metavar="KINDS", help=help_)

    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        """Return the arguments of `sliceport.check`, and the kinds of --fail-on."""
        versions = parse_pairs(options.engine_versions, "engine version", "ENGINE=VERSION, as in openvino=2025.2")
        # `Selection` refuses a wrong engine or version before a model is read. Its result is not used.
        Selection(None if options.engines is None else tuple(options.engines), versions)
        check_names("kind", options.fail_on, KINDS)
        arguments = {"engines": options.engines, "engine_versions": versions, "fail_on": options.fail_on}
        return arguments | shape_options(options)

    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        from sliceport.api import check
        from sliceport.report.check import summarize
        from sliceport.report.model_explorer import node_data_of_check

        progress.say(f"checking {model}")
        arguments = dict(options)
        # These two options are not arguments of `sliceport.check`.
        fail_on = arguments.pop("fail_on")
        node_data_file = arguments.pop("model_explorer", None)
        report = check(model, **arguments)
        data = report.to_json(model)
        result = {"model": model, **data}
        return Outcome(
            is_clean=not any(each.kind in fail_on for each in report.findings),
            summary=lambda: summarize(result),
            to_json=lambda: data,
            text=lambda *_: summarize(result),  # the command line formats the findings of several models itself
            list_findings=lambda: [
                each for found in report.findings for each in _list_findings(found, report.selection)
            ],
            files={} if node_data_file is None else {node_data_file: node_data_of_check(result, model)},
        )


def _parse_list(text: str) -> list[str]:
    """Split a list at its commas. The list may be empty: with `--fail-on=`, no finding leads to exit status 1."""
    return [part for part in text.split(",") if part]


def _list_findings(found: NodeFinding, selection: Selection) -> list[Finding]:
    """Return a finding for each selected engine that has the defect of a node, or one finding without an engine."""
    # An invalid or fragile node is a finding even if no selected engine has a divergence.
    engines = [divergence.engine for divergence in selection.divergences_of(found.defect)] or [""]
    detail = found.detail or found.defect.trigger
    kind, op, name, defect = found.kind, found.op, found.node, found.defect.id
    return [make_finding(kind, op, name, detail, engine=engine, defect=defect) for engine in engines]


COMMAND = Check()

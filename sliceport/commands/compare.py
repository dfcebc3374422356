"""`compare`: the outputs of engines for the slicing nodes of a model, compared bit for bit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceport.commands.command import Command
from sliceport.commands.options import (
    add_feature_level,
    add_inputs,
    format_descriptions,
    parse_names,
    run_options,
)
from sliceport.commands.outcome import Finding, Options, Outcome, make_finding, repeat_for_defects
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.errors import check_names
from sliceport.formats import formats
from sliceport.sandbox import progress

if TYPE_CHECKING:
    from sliceport.engines.comparison import Comparison


class Compare(Command):
    """The command `compare`."""

    name = "compare"
    help = "run slicing nodes on several engines, and compare the outputs bit for bit"
    modules = ("sliceport.api", "sliceport.engines.comparison")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        add_feature_level(parser)
        parser.add_argument(
            "--executors", metavar="A,B", help="the executors to compare, separated by commas; see below"
        )
        add_inputs(parser)

    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        executors = parse_names(options.executors, "--executors")
        return {"executors": executors, "feature_level": options.feature_level} | run_options(options)

    def check_names(self, options: Options) -> None:
        from sliceport.engines.registry import engines

        FeatureLevel.parse(options["feature_level"])
        if options["executors"]:  # otherwise the engines, which are slow to load, are not needed
            references = [format_.reference[0] for format_ in formats().values()]
            check_names("executor", options["executors"], [*references, *engines()])

    def list_choices(self) -> str:
        """Describe the executors of each model format: the engines that `--executors` accepts."""
        from sliceport.engines.registry import engines_for_nodes

        blocks = []
        for format_ in formats().values():
            reference, description = format_.reference
            engines = engines_for_nodes(format_.name).values()
            others = {engine.name: engine.description for engine in engines if engine.name != reference}
            lines = format_descriptions({reference: description} | others)
            by_default = ", ".join(format_.default_executors)
            blocks.append(f"executors of {format_.title} models,\nby default {by_default}:\n{lines}")
        return "\n\n".join(blocks)

    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        from sliceport.api import compare
        from sliceport.report.text import report_summary, report_text

        progress.say(f"comparing the nodes of {model}")
        report = compare(model, **options)
        return Outcome(
            is_clean=report.is_clean,
            summary=lambda: report_summary(report),
            to_json=report.to_json,
            text=lambda _, columns: report_text(report, columns=columns),
            list_findings=lambda: [each for comparison in report.comparisons for each in _list_findings(comparison)],
        )


def _list_findings(comparison: Comparison) -> list[Finding]:
    """Return a finding for each defect that explains a bad result, or one if none does; [] if the result is clean."""
    if comparison.is_clean:
        return []
    node = comparison.lowered.node
    difference = make_finding(comparison.status, node.op_type, node.name, comparison.detail, engine=comparison.executor)
    return repeat_for_defects(difference, [defect.id for defect in comparison.defects])


COMMAND = Compare()

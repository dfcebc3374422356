"""`compare`: what engines compute for the slicing nodes of a model, bit for bit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceport import progress
from sliceport.commands.command import Command
from sliceport.commands.options import (
    add_feature_level,
    add_input_shapes,
    add_inputs,
    format_descriptions,
    parse_names,
    run_options,
)
from sliceport.commands.outcome import Finding, Options, Outcome, finding

if TYPE_CHECKING:
    from sliceport.engines.comparison import Comparison


def _add_options(command: argparse.ArgumentParser) -> None:
    add_input_shapes(command)
    add_feature_level(command)
    command.add_argument("--executors", metavar="A,B", help="the executors to compare, separated by commas; see below")
    add_inputs(command)


def _read_options(options: argparse.Namespace) -> dict[str, Any]:
    executors = parse_names(options.executors, "--executors")
    return {"executors": executors, "feature_level": options.feature_level} | run_options(options)


def _list_executors() -> str:
    """Format the engines that take part in comparisons, by format."""
    from sliceport.engines.registry import engines_of
    from sliceport.formats import formats

    blocks = []
    for each in formats().values():
        name, description = each.reference
        lines = {name: description} | {
            engine.name: engine.description for engine in engines_of(each.name).values() if engine.name != name
        }
        by_default = ", ".join(each.default_executors)
        blocks.append(f"executors of {each.title} models, by default\n{by_default}:\n{format_descriptions(lines)}")
    return "\n\n".join(blocks)


def _run(model: str, _output: Path | None, options: Options, _overwrite: bool) -> Outcome:
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
    if comparison.is_clean:
        return []
    node = comparison.lowered.node
    return [
        finding(
            comparison.status, node.op_type, node.name, comparison.detail, engine=comparison.executor, defect=defect
        )
        for defect in [defect.id for defect in comparison.defects] or [""]
    ]


COMMAND = Command(
    name="compare",
    help="run lowered nodes and compare them, bit for bit",
    add_options=_add_options,
    read_options=_read_options,
    run=_run,
    listing=_list_executors,
    modules=("sliceport.api", "sliceport.engines.comparison"),
)

"""`diff`: two engines, or two models, side by side, and the node that causes a difference."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from sliceport.commands.command import Command
from sliceport.commands.options import add_inputs, format_descriptions, parse_seconds, run_options
from sliceport.commands.outcome import Finding, Options, Outcome, make_finding, repeat_for_defects
from sliceport.errors import UsageError
from sliceport.sandbox import progress
from sliceport.search.report import DiffReport


class Diff(Command):
    """The command `diff`."""

    name = "diff"
    help = "compare whole models on two engines, and find the first node that differs"
    model = ("A", "ONNX, or OpenVINO IR (.xml)")
    other = "a second model, which should compute the same"
    writes = "if asked"
    output = (
        "also write the outputs, report.json and, if outputs differ, the smallest model that differs, its data, "
        "run.py and issue.md; with a probe's results, the next probe"
    )
    output_flags = ("-o", "--save")
    has_pages = True
    modules = ("sliceport.search.diff",)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--on", metavar="ENGINE", help="the engine to test; with B, the engine that runs A; see below"
        )
        parser.add_argument(
            "--against",
            metavar="ENGINE",
            help="the engine that computes the expected outputs; with B, the engine that runs B; or a folder of "
            "recorded outputs; or a probe's results.json",
        )
        add_inputs(parser)
        parser.add_argument("--seeds", type=int, default=1, metavar="N", help="sets of random inputs to try; default 1")
        help_ = (
            "accepted difference of computed outputs, or of NAME; meeting one bound is enough; default: by element type"
        )
        parser.add_argument("--tolerance", action="append", default=[], metavar="[NAME:]abs=X,rel=Y,ulp=Z", help=help_)
        parser.add_argument(
            "--budget", default="0", metavar="S", help="seconds for comparison and search; 0 disables the limit"
        )
        help_ = "keep the results of runs in DIR; to continue after an interruption, repeat the command"
        parser.add_argument("--resume", metavar="DIR", help=help_)

    def read_options(self, options: argparse.Namespace) -> dict[str, Any]:
        if _is_results(options.against):
            _refuse_options_for_results(options)
        return {
            "on": options.on,
            "against": options.against,
            "seeds": options.seeds,
            "tolerance": dict(map(_parse_tolerance, options.tolerance)),
            "budget": parse_seconds(options.budget, "--budget"),
            "resume": options.resume,
        } | run_options(options)

    def list_choices(self) -> str:
        """Format the engines that run whole models, with their options."""
        from sliceport.engines.registry import model_engines

        lines = {}
        for name, engine in model_engines().items():
            lines[name] = f"{', '.join(engine.model_formats)}: {engine.description}"
            if engine.options:
                lines[name] += f" ({'; '.join(f'{key}={line}' for key, line in engine.options.items())})"
        return f"engines, with options as in onnxruntime-cpu:level=basic:\n{format_descriptions(lines)}"

    def run(self, model: str, output: Path | None, options: Options, overwrite: bool) -> Outcome:
        from sliceport.report.diff import diff_page, diff_summary, diff_text
        from sliceport.report.model_explorer import node_data_of_diff
        from sliceport.search.diff import diff
        from sliceport.search.save import save
        from sliceport.verdict.difference import Tolerance

        progress.say(f"comparing {model}")
        arguments = dict(options)
        page_file, node_data_file = arguments.pop("html", None), arguments.pop("model_explorer", None)
        tolerances = {name: Tolerance(**measures) for name, measures in arguments.pop("tolerance", {}).items()}
        reading = None
        # `against` is an engine, a folder of recorded outputs, or the results.json of a probe.
        if _is_results(arguments["against"]):
            from sliceport.probe.results import read_results

            reading = read_results(model, arguments["against"], inputs=arguments["inputs"], tolerance=tolerances)
            report = reading.report
        else:
            report = diff(model, **arguments, tolerance=tolerances)
        if output is not None and reading is not None and reading.next_round is not None:
            written = reading.next_round.write(output, overwrite=overwrite)
            report = replace(report, notes=(*report.notes, written.text))
        elif output is not None:
            save(report, output, overwrite=overwrite)
        files = {}
        models = [str(name) for name in (model, arguments.get("other")) if name is not None]
        if page_file is not None:
            files[page_file] = diff_page(report, models)
        if node_data_file is not None:
            # The node data are for the first of two models if that one does not run, and otherwise for the last model.
            files[node_data_file] = node_data_of_diff(report, models[0 if report.failed_model == "first model" else -1])
        return Outcome(
            is_clean=report.is_equal,
            is_untested=report.is_untested,
            summary=lambda: diff_summary(report),
            to_json=report.to_json,
            text=lambda _, columns: diff_text(report, columns),
            list_findings=lambda: _list_findings(report),
            output=output,
            files=files,
        )


def _parse_tolerance(text: str) -> tuple[str, dict[str, float]]:
    """Parse a tolerance such as `y:abs=1e-3,ulp=4` into the name of an output and its bounds.

    If the text has no name, return an empty name. The bounds are then for all outputs without a tolerance of their own.
    """
    output, _, bounds = text.rpartition(":")
    fields = {"abs": "absolute", "rel": "relative", "ulp": "ulps"}
    try:
        pairs = [bound.split("=") for bound in bounds.split(",")]
        return output, {fields[name]: float(number) for name, number in pairs}
    except (KeyError, ValueError):
        form = "[NAME:]abs=X,rel=Y,ulp=Z with at least one bound"
        raise UsageError(f"--tolerance must be written {form}, got {text!r}.") from None


def _is_results(against: str | None) -> bool:
    """Return whether the value of --against is the results.json of a probe."""
    return against is not None and against.endswith(".json")


def _refuse_options_for_results(options: argparse.Namespace) -> None:
    """Refuse options that have no effect on the results of a probe."""
    given = {
        "--on": options.on,
        "--budget": parse_seconds(options.budget, "--budget"),
        "--resume": options.resume,
        "--seed": options.seed,
        "--seeds": options.seeds != 1,
        "the second model": vars(options).get("other"),  # a batch has none
        "--input-shapes": options.input_shapes,
    }
    for title, value in given.items():
        if value:
            raise UsageError(f"--against {options.against} contains results of a probe, so leave out {title}.")


def _list_findings(report: DiffReport) -> list[Finding]:
    """Return a finding for each defect that explains a part of a report, or one for a part that no defect explains.

    Without parts, the only finding is the failure of the report. Without a failure, the findings are untested outputs.
    """
    if report.failure is None:
        untested = [each for each in report.outputs if each.status == "untested"]
        return [make_finding("untested", message=f"output {each.name!r}: {each.detail}") for each in untested]
    if not report.parts:
        engine = re.split("[: ]", report.failed or report.on)[0]  # without its options and version
        return [make_finding(report.failure.kind, message=report.failure.message, engine=engine)]
    findings: list[Finding] = []
    for part in report.parts:
        node, failure, engine = part.case.culprit, part.case.failure, part.bad.engine.name
        difference = make_finding(failure.kind, node.op_type, node.name, failure.message, engine=engine)
        findings += repeat_for_defects(difference, [defect.id for defect in part.defects])
    return findings


COMMAND = Diff()

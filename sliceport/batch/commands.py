"""The commands that a batch runs over models: what each does with one model, and what it finds.

A command is a value of `Command` in `COMMANDS`; the file of the same name in `sliceport/cli` gives it its options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sliceport.batch.row import Finding

if TYPE_CHECKING:
    from sliceport.engines.comparison import Comparison
    from sliceport.formats import Result

Options = Mapping[str, Any]
"""Arguments of the Python function that does the same, `inputs` as names of files."""


@dataclass(frozen=True)
class Outcome:
    """What came out for one model.

    Attributes:
        is_clean: Whether the command alone would exit with 0.
        message: The result in one line.
        findings: What is wrong with the model, or was changed in it.
        data: What the command alone prints as JSON.
        output: The main file that it wrote, relative to the folder that it was given; None where it wrote none.
    """

    is_clean: bool
    message: str
    findings: tuple[Finding, ...]
    data: dict[str, Any]
    output: str | None = None


@dataclass(frozen=True)
class Command:
    """A command that a batch can run.

    Attributes:
        name: The words of the command line.
        help: What it does, for the help of the command line.
        run: Runs it on a model's file, with a folder to write into or None, and options. What it raises is the model's
            result, too.
        writes: Whether it writes a file for a model.
        takes_inputs: Whether it takes arrays for inputs; if not, those of a manifest are left out.
        modules: What is loaded ahead of the first model, where it is installed.
    """

    name: str
    help: str
    run: Callable[[str, Path | None, Options], Outcome]
    writes: Literal["always", "if asked", "never"] = "never"
    takes_inputs: bool = True
    modules: tuple[str, ...] = ("sliceport.api",)


def finding(
    reason: str, operator: str = "", node: str = "", message: str = "", *, engine: str = "", defect: str = ""
) -> Finding:
    """A finding; what does not apply is empty."""
    return Finding(reason=reason, operator=operator, engine=engine, defect=defect, node=node, message=message)


def _lower(model: str, folder: Path | None, options: Options) -> Outcome:
    from sliceport.api import lower
    from sliceport.collector import collector_paused
    from sliceport.report.text import program_summary

    with collector_paused():
        program = lower(model, **options)
    if folder is not None:
        program.write(folder / "program")
    findings = tuple(
        finding(lowered.reason.code, lowered.node.op_type, lowered.node.name, lowered.reason.message)
        for lowered in program.nodes
        if lowered.reason is not None
    )
    output = None if folder is None else "program/program.json"
    return Outcome(not findings, program_summary(program), findings, program.to_json(), output)


def _compare(model: str, _: Path | None, options: Options) -> Outcome:
    from sliceport.api import compare
    from sliceport.report.text import report_summary

    report = compare(model, **options)
    findings = tuple(found for one in report.comparisons for found in _findings_of(one))
    return Outcome(report.is_clean, report_summary(report), findings, report.to_json())


def _findings_of(comparison: Comparison) -> Sequence[Finding]:
    if comparison.status in ("equal", "folded"):
        return ()
    node = comparison.lowered.node
    return [
        finding(
            comparison.status,
            node.op_type,
            node.name,
            comparison.detail,
            engine=comparison.executor,
            defect=defect,
        )
        for defect in [defect.id for defect in comparison.defects] or [""]
    ]


def _rewrite(model: str, folder: Path | None, options: Options) -> Outcome:
    from sliceport.api import rewrite

    assert folder is not None
    result = rewrite(model, folder / "model.onnx", **options)
    data = result.to_json()
    findings = [
        finding(kind, left["op"], left["node"], left["reason"])
        for kind in ("contested", "invalid")
        for left in data[kind]
    ]
    return _changed(result, data, "model.onnx", [*findings, *_differences(data)])


def _harden(model: str, folder: Path | None, options: Options) -> Outcome:
    from sliceport.api import harden

    assert folder is not None
    name = f"model{_suffix_for(model, options.get('target'))}"
    result = harden(model, folder / name, **options)
    data = result.to_json()
    findings = [
        finding(
            "not fixed" if change["replacement"] is None else "rewritten",
            change["op"],
            change["node"],
            defect["reason"],
            engine=data["target"],
            defect=defect["id"],
        )
        for change in data["changes"]
        for defect in change["defects"]
    ]
    findings += [finding("invalid", left["op"], left["node"], left["reason"]) for left in data["invalid"]]
    return _changed(result, data, name, [*findings, *_differences(data)])


def _suffix_for(model: str, target: str | None) -> str:
    """How a hardened model's name ends: as those of the format that hardens for the target, else as the model's."""
    from sliceport.formats import format_of, formats

    by_target = [one for one in formats().values() if target in one.targets]
    return (by_target[0] if by_target else format_of(model)).suffixes[0]


def _differences(data: Mapping[str, Any]) -> list[Finding]:
    return [finding("changed values", message=message) for message in data.get("differences", ())]


def _changed(result: Result, data: dict[str, Any], output: str, findings: Sequence[Finding]) -> Outcome:
    message = result.text().strip().rpartition("\n")[2]
    return Outcome(result.is_clean, message, tuple(findings), data, output if result.is_written else None)


def _run_on_directml(model: str, folder: Path | None, options: Options) -> Outcome:
    from sliceport.defects.engines import ONNXRUNTIME_DML
    from sliceport.formats import format_of

    run = format_of(model).run_on_directml(model, **options)
    if folder is not None:
        run.write(folder / "run")
    findings = tuple(
        finding(one.kind, one.op_type, one.node, one.message, engine=ONNXRUNTIME_DML, defect=defect)
        for one in run.findings
        for defect in one.defects or ("",)
    )
    output = None if folder is None else "run/report.json"
    return Outcome(run.is_clean, run.summary, findings, run.to_json(), output)


COMMANDS = {
    command.name: command
    for command in (
        Command(
            "lower",
            "lower every Slice and Split to DirectML operators",
            _lower,
            writes="if asked",
            takes_inputs=False,
        ),
        Command(
            "compare",
            "run lowered nodes and compare them, bit for bit",
            _compare,
            modules=("sliceport.api", "sliceport.engines.comparison"),
        ),
        Command("harden", "rewrite the slicing that an engine computes wrongly", _harden, writes="always"),
        Command("rewrite", "simplify the slicing of ONNX models", _rewrite, writes="always"),
        Command(
            "directml run",
            "run whole models on onnxruntime's DirectML provider",
            _run_on_directml,
            writes="if asked",
        ),
    )
}

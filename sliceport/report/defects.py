"""The table of defects as text, and an entry as a bug report for the developers of an engine."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sliceport.defects.defect import Defect, Divergence
from sliceport.defects.engines import ALL_TITLES, REPORTED_TITLES
from sliceport.defects.table import defects_of
from sliceport.report.table import wrap
from sliceport.wording import format_issue


def defects_text(engines: Sequence[str], *, verbose: bool = False, columns: int | None = None) -> str:
    """Format the defects of each engine, in lines wrapped to `columns`.

    With `verbose`, also add the right behavior, the versions, the remedy and the cases.
    """
    lines = []
    for engine in engines:
        note = ", from reports or single runs, not from tests" if engine in REPORTED_TITLES else ""
        lines.append(f"{ALL_TITLES[engine]} ({engine}){note}")
        for defect in defects_of(engine):
            for line in _format_entry(defect, defect.divergence_on(engine), verbose):
                lines += wrap(line, columns)
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def defect_issue(defect: Defect, engine: str) -> str:
    """Draft a bug report for the developers of an engine, in Markdown. The engine must be one of `defect.engines`."""
    divergence = defect.divergence_on(engine)
    effect = f"{ALL_TITLES[engine]} {divergence.does}"
    # If the defect is only reported for this engine, not tested, no example has an outcome of the engine.
    examples = defect.examples_on(engine) or defect.examples
    steps = ["Run each case on distinct values. Below, an element is named by its position in the data, from 0 on."]
    expected, seen = [_to_sentence(defect.right)], [f"{effect}."]
    for number, example in enumerate(examples, 1):
        case = example.case.to_json()  # `onnx` with a model as text, or the parameters of an operator
        steps += [f"{number}. `{example.case}`", "```", case.get("onnx") or json.dumps(case), "```"]
        if "onnx" in case and "shape" in case:
            steps.append(f"The data have the shape {case['shape']}.")
        expected.append(f"{number}. {example.right}")
        if engine in example.seen:
            seen.append(f"{number}. {example.seen[engine]}")
    workaround = _to_sentence(defect.remedy.replace("`harden`", "`sliceport harden`"))
    sections = {"Steps": steps, "Expected": expected, "Seen": seen, "Workaround": [workaround]}
    if divergence.issues:
        sections["Earlier reports"] = list(divergence.issues)
    return format_issue(
        f"{effect}, given {defect.trigger}", f"Versions: {divergence.seen_in or 'not known'}.", sections
    ).rstrip("\n")


def _to_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _format_entry(defect: Defect, divergence: Divergence, verbose: bool) -> list[str]:
    """Return the lines about a defect of one engine."""
    issues = f" ({', '.join(divergence.issues)})" if divergence.issues else ""
    lines = [f"  {defect.id}: given {defect.trigger}, it {divergence.does}{issues}"]
    if not verbose:
        return lines
    lines += [f"    right: {defect.right}", f"    seen in: {divergence.seen_in or 'no version is stated'}"]
    lines += [f"    {defect.remedy}"]
    lines += [
        f"    case: {example.case}: {example.seen[divergence.engine]} instead of {example.right}"
        for example in defect.examples_on(divergence.engine)
    ]
    return lines

"""Script that writes `docs/defects.md`, the pages of `docs/defects` and the table that the package ships."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import sliceport.defects
from sliceport.defects.defect import Accepts, Bits, Defect, Divergence, EndsProcess, Fails, Gives, Outcome, Unwritten
from sliceport.defects.engines import (
    ALL_TITLES,
    DIRECTML,
    ONNX_REFERENCE,
    ONNXRUNTIME_CPU,
    ONNXRUNTIME_CPU_OPTIMIZED,
    ONNXRUNTIME_DML,
    OPENVINO,
    OPENVINO_CPU,
    OPENVINO_ONNX,
    TITLES,
)
from sliceport.defects.table import DEFECTS, LAST_PROVED, defects_of, to_json

ROOT = Path(__file__).parents[3]
INDEX, FOLDER = ROOT / "docs" / "defects.md", ROOT / "docs" / "defects"
TABLE = Path(sliceport.defects.__path__[0]) / "table.json"
INTRODUCTION = f"""# Known defects
This page lists, by engine, the slicing nodes and their neighbours that an engine computes wrongly, refuses or crashes on. Each entry links
to a page with a minimal case, its result, and what helps. *Garbage* is memory that was never written or is outside the input. It differs
from run to run.

[`sliceport check`](check.md) finds these nodes in a model. [`harden`](harden.md) rewrites those that it can, and
[`compare`](cli.md#compare) recognizes a difference that one of them causes. `sliceport defects` prints this table, with `--format json`
for programs. The package contains it as `sliceport/defects/table.json`, with a JSON schema. `sliceport defects report ID` drafts a bug
report for the project of the engine.

Tests run the cases of all engines but those of the last section. A test fails once an engine is right. They last passed on {LAST_PROVED}, on
the versions that the pages name. A minimal ONNX case shows constants in their places: `y = Slice(x[4], [1], [3])` has starts 1 and ends 3.
An OpenVINO case has the data, then the index inputs, then the masks. Results are indices of elements of the data.
"""
REPORTED = """## Reported by users, or seen in single runs
No test runs these engines, because they need other hardware or software. Each page has links to the reports, or the versions with which
`benchmarks/portable.py` showed the defect. `sliceport check --engines NAME` looks for the defects of one engine."""
KINDS = {
    "defect": "defect: the node is valid, and engines handle it wrongly",
    "invalid": "invalid: the node breaks the standard of its operator, and engines then differ",
    "fragile": "fragile: the node is right for some sizes or values only",
}
EVIDENCE = {
    "proved": f"proved by a test on each engine, last on {LAST_PROVED}",
    "reported": "reported by users, or seen in a run of `benchmarks/portable.py`; no test reproduces it",
}
ABOUT = {
    ONNXRUNTIME_DML: "The package is onnxruntime-directml. `sliceport harden --target onnxruntime-dml`, the default for ONNX "
    "models, rewrites the nodes that it can.",
    OPENVINO_CPU: "`sliceport harden --target openvino-cpu`, the default for `.xml` files, rewrites the nodes of this section and the "
    "next. If it uses only built-in operators, the result runs without an extension, also in C++ and `benchmark_app`.",
    OPENVINO: "Constant folding calls Model.evaluate, so these defects also give wrong constants on every other device.",
    OPENVINO_ONNX: "These occur when `openvino.Core().read_model` converts an ONNX file, for every device.",
    ONNXRUNTIME_CPU: "Every onnxruntime has this provider. These defects also occur with graph optimisation off.",
    ONNXRUNTIME_CPU_OPTIMIZED: "These occur with the default options of a session.",
    ONNX_REFERENCE: "This is `onnx.reference.ReferenceEvaluator`.",
    DIRECTML: "This is the library in onnxruntime-directml, which other programs call, too.",
}
SYMPTOMS: dict[type, str] = {
    Gives: "wrong result",
    Bits: "wrong result",
    Unwritten: "garbage",
    Fails: "error",
    Accepts: "no error",
    EndsProcess: "crash",
}
CRASH = SYMPTOMS[EndsProcess]


def pages() -> dict[Path, str]:
    """Return the content of every file that is made from the table."""
    files = {FOLDER / f"{defect.rule}.md": card(defect) for defect in DEFECTS}
    return {INDEX: index(), TABLE: json.dumps(to_json(), indent=1, ensure_ascii=False) + "\n"} | files


def index() -> str:
    """Return the list of all defects by engine."""
    lines = [INTRODUCTION]
    for engine, title in TITLES.items():
        lines += [f"## {capitalize(title)}", ABOUT[engine], ""]
        for defect in defects_of(engine):
            (one,) = [each for each in defect.divergences if each.engine == engine]
            lines.append(f"- {entry_link(defect)}: {symptom(one, seen_on(defect, engine))}")
        lines.append("")
    lines += [REPORTED, ""]
    for defect in DEFECTS:
        if defect.evidence == "reported":
            lines.append(f"- {entry_link(defect)}: {', '.join(ALL_TITLES[engine] for engine in defect.engines)}")
    return "\n".join(lines).rstrip("\n") + "\n"


def entry_link(defect: Defect) -> str:
    return f"[{capitalize(defect.trigger)}](defects/{defect.rule}.md)"


def card(defect: Defect) -> str:
    """Return the page of one defect: short paragraphs and lists, which a narrow screen shows whole."""
    lines = [
        f"# {capitalize(defect.id)}",
        f"{capitalize(defect.trigger)}.",
        "",
        f"- Rule: `{defect.rule}`",
        f"- Kind: {KINDS[defect.kind]}",
        f"- Evidence: {EVIDENCE[defect.evidence]}",
        "",
        "## What is right",
        f"{capitalize(defect.right)}.",
        "",
        "## What engines do",
    ]
    for one in defect.divergences:
        seen = seen_on(defect, one.engine)
        outcome = f"**{symptom(one, seen)}**: " if seen else ""
        lines += [f"- {capitalize(ALL_TITLES[one.engine])} (`{one.engine}`) {one.does}."]
        lines += [
            f"    - {capitalize(part)}" for part in (f"{outcome}{messages(seen)}".strip(": "), versions(one)) if part
        ]
        lines += [f"    - {link(issue)}" for issue in one.issues]
        lines += [f"    - `sliceport harden --target {one.target}` avoids it"] * bool(one.target)
    if defect.correct_engines:
        right = ", ".join(ALL_TITLES[engine] for engine in defect.correct_engines)
        lines.append(f"- Right: {right}.")
    lines += ["", "## What helps", f"{capitalize(defect.remedy)}.", "", "## Cases"]
    for example in defect.examples:
        lines += [f"- `{example.case}`", f"    - right: {code(str(example.right))}"]
        lines += [f"    - `{engine}`: {code(str(outcome))}" for engine, outcome in example.seen.items()]
    return "\n".join(lines) + "\n"


def code(outcome: str) -> str:
    """Return an outcome, with an error message as code."""
    head, separator, message = outcome.partition(": ")
    return f"{head}: `{message}`" if separator else outcome


def versions(divergence: Divergence) -> str:
    """Describe in which versions a defect was seen."""
    seen = f"seen in {', '.join(divergence.versions)}" if divergence.versions else "the reports state no version"
    return seen + "".join(
        f", {word} {version}"
        for word, version in (("wrong since", divergence.since), ("right in", divergence.until))
        if version
    )


def seen_on(defect: Defect, engine: str) -> list[Outcome]:
    """Return the wrong outcomes of an engine."""
    return [example.seen[engine] for example in defect.examples_on(engine)]


def symptom(divergence: Divergence, seen: Sequence[Outcome]) -> str:
    """Describe in a few words what a user sees."""
    words = [SYMPTOMS[type(outcome)] for outcome in seen] + [CRASH] * divergence.is_unsafe
    return " or ".join(dict.fromkeys(words))


def messages(seen: Sequence[Outcome]) -> str:
    """Return the error messages, so that a user can search for them."""
    found = dict.fromkeys(outcome.message for outcome in seen if isinstance(outcome, Fails) and outcome.message)
    return ", ".join(f"`{message}`" for message in found)


def link(issue: str) -> str:
    """Return a report as a link."""
    repository, _, number = issue.partition("#")
    return f"[{repository.partition('/')[2]} {number}](https://github.com/{repository}/issues/{number})"


def capitalize(text: str) -> str:
    """Capitalize the first letter of a cell or title, unless it belongs to a name."""
    return (
        text
        if text.startswith(("onnx", "begin_mask", "num_outputs", "ncnn", "sliceport", "tinygrad", "tract", "`"))
        else text[:1].upper() + text[1:]
    )


if __name__ == "__main__":
    for path, content in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for path in set(FOLDER.glob("*.md")) - set(pages()):
        path.unlink()

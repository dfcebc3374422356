"""Script that writes `docs/defects.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sliceport.defects.defect import Accepts, Bits, Defect, Divergence, EndsProcess, Fails, Gives, Outcome, Unwritten
from sliceport.defects.engines import (
    DIRECTML,
    ONNX_REFERENCE,
    ONNXRUNTIME_CPU,
    ONNXRUNTIME_CPU_OPTIMIZED,
    ONNXRUNTIME_DML,
    OPENVINO,
    OPENVINO_CPU,
    TITLES,
)
from sliceport.defects.table import defects_of

PAGE = Path(__file__).parent.parent / "docs" / "defects.md"
INTRODUCTION = """# Known defects
This is what engines compute wrongly, refuse or crash on when they slice. Find your engine, then what comes out. *Garbage* is
memory that was never written, which differs from run to run.

Each row has a test that runs its case on the real engine, in the versions that it names, and fails once the engine is right.
`sliceport defects` prints the same table, with `--format json` for programs. [Hardening](harden.md) rewrites the nodes of a
model that are in it, and [`compare`](cli.md#compare) tells whether what differs is one of these.

The minimal cases of ONNX have constants where they are read: `y = Slice(x[4], [1], [3])` has starts 1 and ends 3. Those of
OpenVINO have the data first, then the index inputs, then the masks. All name elements by their indices.
"""
ABOUT = {
    ONNXRUNTIME_DML: "The package is onnxruntime-directml. `sliceport harden --target onnxruntime-dml`, the default for ONNX "
    "models, rewrites what it can.",
    OPENVINO_CPU: "`sliceport harden --target openvino-cpu`, the default for `.xml` files, rewrites this table and the next. "
    "Where it does so by built-in operators, `ovc`, C++ and `benchmark_app` need no extension to run the result.",
    OPENVINO: "Constant folding calls Model.evaluate, so that what is wrong here reaches every device by constants.",
    ONNXRUNTIME_CPU: "This is the provider that every onnxruntime has, with graph optimisation off.",
    ONNXRUNTIME_CPU_OPTIMIZED: "This is what a session of onnxruntime does unless it is told otherwise.",
    ONNX_REFERENCE: "This is `onnx.reference.ReferenceEvaluator`.",
    DIRECTML: "This is the library itself, from onnxruntime-directml, whoever calls it.",
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


def page() -> str:
    """Return the page."""
    lines = [INTRODUCTION]
    for engine, title in TITLES.items():
        lines += [
            f"## {capitalize(title)}",
            ABOUT[engine],
            "",
            "| what triggers it | what comes out | what is right | seen in | workaround |",
            "|---|---|---|---|---|",
        ]
        for defect in defects_of(engine):
            lines += [row(defect, one) for one in defect.divergences if one.engine == engine]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def row(defect: Defect, divergence: Divergence) -> str:
    """Return the row of one defect in the table of an engine."""
    examples = defect.examples_on(divergence.engine)
    seen = [example.seen[divergence.engine] for example in examples]
    cases = "".join(f"<br>`{example.case}`" for example in examples)
    reports = "".join(f"<br>{link(issue)}" for issue in divergence.issues)
    cells = [
        f"{capitalize(defect.trigger)}{cases}",
        f"**{symptom(divergence, seen)}**: it {divergence.does}{messages(seen)}",
        capitalize(defect.right),
        f"{', '.join(divergence.versions)}{reports}",
        capitalize(defect.remedy),
    ]
    return f"| {' | '.join(cells)} |"


def symptom(divergence: Divergence, seen: Sequence[Outcome]) -> str:
    """Describe in a few words what a user sees."""
    words = [SYMPTOMS[type(outcome)] for outcome in seen] + [CRASH] * divergence.is_unsafe
    return " or ".join(dict.fromkeys(words))


def messages(seen: Sequence[Outcome]) -> str:
    """Return the error messages, so that a user can search for them."""
    found = dict.fromkeys(outcome.message for outcome in seen if isinstance(outcome, Fails) and outcome.message)
    return "".join(f"<br>`{message}`" for message in found)


def link(issue: str) -> str:
    """Return a report as a link."""
    repository, _, number = issue.partition("#")
    return f"[{repository.partition('/')[2]} {number}](https://github.com/{repository}/issues/{number})"


def capitalize(text: str) -> str:
    """Capitalize the first letter of a cell or title, unless it belongs to a name."""
    return text if text.startswith(("onnx", "begin_mask", "sliceport", "`")) else text[:1].upper() + text[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

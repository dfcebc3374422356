"""Verdicts on real networks on onnxruntime's DirectML provider, as exported and after `sliceport harden`.

Each export in models/ and each model in the given folders runs whole on the real provider, with graph fusion. Nodes
that the provider lacks run on the CPU provider. The outputs are compared with those of the CPU provider alone. The
hardened model then runs on the same inputs, and is compared with the same values. Each of the two verdicts is one of

    right         it runs, and every output is within the tolerance of `sliceport diff`
    wrong         it runs, and an output differs
    refused       the provider refuses at least one node, or the nodes together
    ends          the process of the provider ends
    not compiled  this adapter cannot compile the shader of a node, and there is no other finding

The hardened model also runs on the CPU provider, and is compared with the original there. `--json` stores the largest
relative difference. A model that the CPU provider does not run has no verdict, and is listed separately.

The sizes of open dimensions come from models.json in the folder of the model, or from `--input-shapes` if the folder
has no such file.

    python benchmarks/real_networks.py [FOLDER ...] [--input-shapes x:1,16] [--json FILE] [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
import onnxruntime

import sliceport
from onnx_ops.running.directml_provider import open_provider
from sliceport.errors import SliceportError
from sliceport.search.report import DiffReport

MODELS = Path(__file__).parents[1] / "models"
VERDICTS = ("right", "wrong", "refused", "ends", "not compiled")
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Row:
    """A network with its verdicts.

    Attributes:
        name: Its file.
        before: The verdict on the exported network.
        changes: The number of nodes of each operator that `harden` rewrote or named.
        after: The verdict on the hardened network.
        reasons: The findings after hardening: the number of each pair of operator and verdict.
        cpu_difference: The largest relative difference that hardening makes on the CPU provider: 0 if no bit changes,
            and infinity if an output is beyond its tolerance.
    """

    name: str
    before: str
    changes: str
    after: str
    reasons: str
    cpu_difference: float


def models_in(folder: Path, shapes: Shapes) -> Iterator[tuple[Path, Shapes]]:
    """Yield the models that models.json in a folder lists, with the shapes there.

    If there is no such file, yield all models in the folder, with those of `shapes` that their open inputs have.
    """
    index = folder / "models.json"
    if index.exists():
        for entry in json.loads(index.read_text(encoding="utf-8")):
            yield folder / entry["file"], {name: tuple(sizes) for name, sizes in entry["input_shapes"].items()}
        return
    for path in sorted(folder.glob("*.onnx")):
        graph = onnx.load(path, load_external_data=False).graph
        is_open = {
            value.name
            for value in graph.input
            if any(not dimension.HasField("dim_value") for dimension in value.type.tensor_type.shape.dim)
        }
        yield path, {name: sizes for name, sizes in shapes.items() if name in is_open}


def judge(report: DiffReport) -> tuple[str, str]:
    """Return the verdict on a report, and the number of its parts by operator and verdict."""
    if report.is_equal:
        return "right", ""
    if not report.failed:
        kinds = ["wrong"] * max(len(report.parts), 1)
    else:
        failures = [part.case.failure.kind for part in report.parts] or [report.failures[0].kind]
        kinds = [{"adapter": "not compiled", "crash": "ends"}.get(kind, "refused") for kind in failures]
    operators = [part.case.culprit.op_type for part in report.parts] or ["model"]
    reasons = Counter(f"{operator}: {kind}" for operator, kind in zip(operators, kinds, strict=True))
    verdict = next(kind for kind in ("wrong", "ends", "refused", "not compiled") if kind in kinds)
    return verdict, ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def measure(path: Path, shapes: Shapes, folder: Path) -> Row:
    """Run a network as exported and hardened. The hardened network is written into `folder`.

    Raises:
        SliceportError: The network cannot be read, hardened or written, or the CPU provider does not run it.
    """
    before = sliceport.diff(path, on="onnxruntime-dml", input_shapes=shapes)
    result = sliceport.harden(path, folder / path.name, target="onnxruntime-dml")
    is_changed = result.changes.is_changed
    after = sliceport.diff(folder / path.name, on="onnxruntime-dml", input_shapes=shapes) if is_changed else before
    level = "onnxruntime-cpu:level=none"
    pair = sliceport.diff(path, folder / path.name, on=level, against=level, input_shapes=shapes)
    relatives = [each.relative if not each.kind else float("inf") for each in pair.outputs]
    changes = Counter(change["op"] for change in result.to_json()["changes"])
    rewritten = ", ".join(f"{count} {op}" for op, count in changes.items())
    return Row(path.name, judge(before)[0], rewritten, *judge(after), max(relatives, default=0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="more models")
    parser.add_argument("--input-shapes", nargs="+", default=[], metavar="NAME:SIZES", help="for the models of FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows and counts to FILE")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only files whose names contain one of these")
    options = parser.parse_args()
    names_and_sizes = (text.rsplit(":", 1) for text in options.input_shapes)
    given_shapes = {name: tuple(map(int, sizes.split(","))) for name, sizes in names_and_sizes}
    cases = [case for folder in (MODELS, *options.folders) for case in models_in(folder, given_shapes)]
    cases = [case for case in cases if not options.only or any(name in case[0].name for name in options.only)]
    rows: list[Row] = []
    without_verdict: dict[str, str] = {}
    with open_provider() as dml:
        facts = dml.facts()
    with tempfile.TemporaryDirectory() as folder:
        for path, shapes in cases:
            try:
                row = measure(path, shapes, Path(folder))
            except SliceportError as error:
                without_verdict[path.name] = str(error)
                continue
            rows.append(row)
            print(f"{row.name:40}{row.before:14}{row.after:14}{row.changes}  {row.reasons}", flush=True)
    counts = {when: Counter(getattr(row, when) for row in rows) for when in ("before", "after")}
    print(f"\n{len(rows)} networks{'':29}" + "".join(f"{verdict:>14}" for verdict in VERDICTS))
    for when, count in counts.items():
        print(f"{when:40}" + "".join(f"{count[verdict]:14}" for verdict in VERDICTS))
    for name, reason in without_verdict.items():
        print(f"no verdict: {name}: {reason}")
    versions = {
        "sliceport": sliceport.__version__,
        "onnxruntime-directml": facts["onnxruntime"],
        "onnxruntime (CPU provider)": onnxruntime.__version__,
        "adapter": facts["adapter"],
        "shader model": facts["shader_model"],
    }
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    if options.json:
        results = {
            "versions": versions,
            "counts": counts,
            "rows": [asdict(row) for row in rows],
            "without_verdict": without_verdict,
        }
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

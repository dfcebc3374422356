"""Invented rows and headers of batch runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sliceport.batch.compare_runs import RunComparison
from sliceport.batch.compare_runs import compare_runs as compare
from sliceport.batch.row import Header, Row, Verdict
from sliceport.commands.outcome import Finding

OPERATORS = ("Slice", "Split", "StridedSlice", "VariadicSplit")
ENGINES = ("openvino-cpu", "dml-emulator", "onnxruntime-dml", "ov_ext")
DEFECTS = ("", "new axis and shrink with entries left out", "negative step over an empty axis", "split of a part of 0")
FAILED: dict[int, Verdict] = {1: "error", 2: "crash", 3: "timeout", 4: "memory", 5: "lost"}


def make_finding(**parts: str) -> Finding:
    finding: Finding = {
        "reason": "mismatch",
        "operator": "Split",
        "engine": "openvino-cpu",
        "defect": "",
        "node": "node_1",
        "message": "Split 'node_1': 3 of 12 bytes differ.",
    }
    finding |= parts  # type: ignore[typeddict-item]
    return finding


def make_row(model: str = "zoo/a.onnx", verdict: Verdict = "clean", *findings: Finding, **parts: Any) -> Row:
    row: Row = {
        "schema_version": 1,
        "model": model,
        "key": "a1" * 32,
        "command": "compare",
        "verdict": verdict,
        "message": "" if verdict == "clean" else f"It ended as {verdict}.",
        "findings": list(findings),
        "result": {"summary": {"total": 3}},
    }
    row |= parts  # type: ignore[typeddict-item]
    return row


def make_header(**parts: Any) -> Header:
    header: Header = {
        "schema_version": 1,
        "command": "compare",
        "options": {"seed": 0, "feature_level": "6.4"},
        "sources": ["zoo"],
        "versions": {"sliceport": "0.1.0", "onnx": "1.23.0", "onnxruntime": "1.31.1", "openvino": "2026.4.1"},
        "started": "2026-11-22T07:00:00Z",
        "shard": None,
        "timeout": 300,
        "memory": 2**32,
        "jobs": 2,
        "models": 12,
    }
    header |= parts  # type: ignore[typeddict-item]
    return header


def compare_runs(
    rows_a: Iterable[Row], rows_b: Iterable[Row], headers: tuple[Header, Header] | None = None
) -> RunComparison:
    """Compare rows of two runs, sorted as runs have them; by default of the same versions and options."""
    before, after = (sorted(rows, key=lambda row: row["model"]) for rows in (rows_a, rows_b))
    return compare(before, after, headers or (make_header(), make_header()))


def make_rows(count: int, *, version: str = "1.31.1", nodes: int = 11) -> Iterator[Row]:
    """Yield rows of `sliceport compare`, about 3 kB each with 11 nodes. Of 40, five failed and five have findings."""
    for i in range(count):
        model = f"zoo/{('vision', 'language', 'audio')[i % 3]}/model_{i:05d}.onnx"
        result = make_result(i, version, nodes)
        kind = i % 40
        if kind in FAILED:
            parts = {"stderr": ["Assertion `size > 0' failed.", "Aborted"]} if kind > 1 else {}
            yield make_row(model, FAILED[kind], result=None, key=f"{i:064x}", **parts)
        elif 6 <= kind <= 10:
            findings = [
                make_finding(
                    operator=OPERATORS[(i + j) % 4],
                    engine=ENGINES[i // 40 % 4],
                    defect=DEFECTS[(i + j) % 4],
                    node=f"/layers.{i % 7}/attention/slice_{j}",
                    message=f"{OPERATORS[(i + j) % 4]} '/layers.{i % 7}/attention/slice_{j}': output 'y' by "
                    f"{ENGINES[i // 40 % 4]} differs from onnxruntime-cpu: first at index [0, {j}], computed bytes "
                    f"00009642, expected 0000a042 ({i} of 12000 bytes differ).",
                )
                for j in range(kind - 5)
            ]
            yield make_row(
                model, "finding", *findings, result=result, key=f"{i:064x}", message=f"{len(findings)} of 11 differ."
            )
        else:
            yield make_row(model, result=result, key=f"{i:064x}")


def make_result(seed: int, version: str, nodes: int) -> dict[str, Any]:
    """Return the JSON of `sliceport compare` for a model of `nodes` slicing nodes."""
    return {
        "schema_version": 1,
        "feature_level": "6.4",
        "reference": f"onnxruntime-cpu {version}",
        "summary": {"total": nodes, "equal": nodes, "mismatch": 0, "error": 0, "refused": 0, "folded": 2},
        "command": "sliceport compare {model} --seed 0 --feature-level 6.4",
        "notes": [],
        "comparisons": [
            {
                "name": f"/layers.{seed % 7}/attention/node_slice_{j}",
                "op_type": OPERATORS[(seed + j) % 4],
                "scope": [],
                "verdict": "lowered",
                "executor": ENGINES[seed % 4],
                "status": "equal",
                "detail": "" if j % 3 else f"a view of {seed * 7919 + j} bytes of the input, which is never copied",
                "bytes_compared": (seed * 31 + j * 7) % 65536,
                "alone": False,
            }
            for j in range(nodes)
        ],
    }

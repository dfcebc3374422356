"""Whole models on two engines: the first node that differs, and the smallest model that shows it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import parse, save
from planted_faults import Fault, Faulty, fuse, not_a_number, refuse, swap

from sliceport.diffing import side
from sliceport.diffing.diff import diff
from sliceport.diffing.report import DiffReport
from sliceport.engines.registry import model_engines
from sliceport.errors import ModelError, UsageError

CHAIN = """(float[3,4] x, float[4] bias) => (y, z) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    [a] a = Mul (x, w)  [b] b = Add (a, bias)  [c] c = Sigmoid (b)  [d] d = Add (c, x)  [e] y = Tanh (d)
    [f] z = Neg (a)
}"""

Differ = Callable[..., DiffReport]


@pytest.fixture
def differ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Differ:
    """Compare an engine with a fault with onnxruntime's CPU provider."""

    def run(graph: str | Path, fault: Fault, **options: Any) -> DiffReport:
        known = {**model_engines(), "faulty": Faulty(fault)}
        monkeypatch.setattr(side, "model_engines", lambda: known)
        path = save(graph, tmp_path / "model.onnx") if isinstance(graph, str) else graph
        return diff(path, **{"on": "faulty", **options})

    return run


def names(report: DiffReport) -> list[str]:
    assert report.part is not None
    return [node.name for node in report.part.case.nodes]


def test_equal_engines_have_no_finding(differ: Differ) -> None:
    report = differ(CHAIN, lambda _: None)
    assert report.is_equal
    assert [output.status for output in report.outputs] == ["equal", "equal"]


def test_wrong_node_is_found_alone(differ: Differ) -> None:
    report = differ(CHAIN, swap("b", "Sub"))
    assert names(report) == ["b"]
    assert report.part is not None
    assert sorted(report.part.case.inputs) == ["a", "bias"]
    assert not report.part.case.is_fusion


def test_nan_is_named(differ: Differ) -> None:
    report = differ(CHAIN, not_a_number("c"))
    assert names(report) == ["c"]
    assert report.failure is not None
    assert report.failure.kind == "nan"


def test_wrong_fusion_is_found_with_its_nodes(differ: Differ) -> None:
    report = differ(CHAIN, fuse("Sigmoid", "Add", "Sub"))
    assert names(report) == ["c", "d"]
    assert report.part is not None
    assert report.part.case.is_fusion


def test_refused_node_is_found(differ: Differ) -> None:
    report = differ(CHAIN, refuse("Sigmoid"))
    assert names(report) == ["c"]
    assert report.failed == "faulty 1.0"


def test_failure_of_the_good_side_is_found(differ: Differ) -> None:
    report = differ(CHAIN, refuse("Sigmoid"), on="onnxruntime-cpu", against="faulty")
    assert names(report) == ["c"]
    assert report.failed == "faulty 1.0"


def test_model_that_runs_nowhere_is_an_error(differ: Differ) -> None:
    graph = "(float[2] x, float[3] y) => (z) { z = Add (x, y) }"
    with pytest.raises(ModelError, match="neither engine runs the model"):
        differ(graph, lambda _: None)


def test_engine_that_is_not_deterministic_is_no_finding_about_a_node(differ: Differ) -> None:
    calls = iter(range(1000))

    def fault(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].op_type = ("Mul", "Add", "Sub")[next(calls) % 3]

    report = differ(CHAIN, fault, seeds=3)
    assert not report.is_equal
    assert report.part is None
    assert "gives something else each time" in report.notes[0]


BODIES = """(float[2] x, bool yes) => (y) <int64 three = {3}, bool go = {1}> {
    [pick] p = If (yes) <then_branch = t () => (a) { [a0] h = Exp (x) [a1] a = Add (h, x) },
                         else_branch = e () => (b) { [b0] b = Neg (x) }>
    [loop] y, ys = Loop (three, go, p) <body = l (int64 i, bool c, float[2] s) => (k, t, u) {
        [l0] k = Identity (c)  [l1] m = Mul (s, x)  [l2] t = Sin (m)  [l3] u = Identity (t) }>
}"""


@pytest.mark.parametrize(
    ("fault", "name", "scope"),
    [
        (swap("a1", "Sub"), "a1", "If 'pick', then_branch"),
        (swap("l2", "Cos"), "l2", "Loop 'loop', iteration 0"),
    ],
)
def test_bodies_are_entered(differ: Differ, fault: Fault, name: str, scope: str) -> None:
    report = differ(BODIES, fault, inputs={"yes": np.array(True)})
    assert names(report) == [name]
    assert report.part is not None
    assert report.part.case.scope == (scope,)


SCAN = """(float[2] start, float[3,2] x) => (last, all) {
    [scan] last, all = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (t, u) {
        [s0] w = Mul (v, v)  [s1] t = Add (s, w)  [s2] u = Identity (t) }> (start, x)
}"""


def test_scan_is_entered(differ: Differ) -> None:
    report = differ(SCAN, swap("s1", "Sub"))
    assert names(report) == ["s1"]


def test_functions_are_inlined(differ: Differ, tmp_path: Path) -> None:
    text = """(float[4] x) => (y) { [call] h = own.twice (x)  [last] y = Exp (h) }
        <domain: "own", opset_import: ["" : 18]> twice (a) => (b) { [inner] b = Add (a, a) }"""
    onnx.save(parse(text, own=1), tmp_path / "function.onnx")

    def fault(proto: onnx.ModelProto) -> None:
        for node in proto.graph.node:
            if node.op_type == "Add":
                node.op_type = "Mul"

    report = differ(tmp_path / "function.onnx", fault)
    assert report.part is not None
    assert [node.op_type for node in report.part.case.nodes] == ["Add"]


def test_search_of_many_nodes_takes_few_runs(differ: Differ) -> None:
    count = 1000
    steps = [f"[n{i}] v{i + 1} = Add (v{i}, one)" for i in range(count)]
    graph = f"(float[2] v0) => (v{count}) <float one = {{1.0}}> {{ {' '.join(steps)} }}"
    report = differ(graph, swap("n700", "Sub"))
    assert names(report) == ["n700"]
    assert report.runs < 80


def test_open_shapes_are_asked_for_once(differ: Differ) -> None:
    graph = "(float[n,3] x, float[n,m] y) => (z, w) { [a] z = Add (x, x)  [b] w = Neg (y) }"
    with pytest.raises(UsageError, match="'x', 'y' leave sizes open") as caught:
        differ(graph, lambda _: None)
    assert str(caught.value).count("input_shapes") == 1
    report = differ(graph, swap("b", "Exp"), open_sizes="primes")
    assert report.outputs[1].shape == (2, 23)
    assert names(report) == ["b"]
    assert differ(graph, swap("b", "Exp"), open_sizes=0).is_equal


DROPPED = """(float[6] x) => (y) <int64[1] s = {0}, int64[1] e = {9223372036854775807}, int64[1] two = {2}> {
    [i] a = Neg (x)  [slice] b = Slice (a, s, e, , two)  [n] y = Neg (b)
}"""


def test_optimizer_is_named(tmp_path: Path) -> None:
    """EliminateSlice drops a Slice with steps whose axes are omitted (onnxruntime 1.31)."""
    report = diff(save(DROPPED, tmp_path / "model.onnx"), on="onnxruntime-cpu")
    assert report.part is not None
    assert "EliminateSlice is to blame" in report.part.cause
    assert names(report) == ["i", "slice", "n"]  # it leaves a Slice of an input of the model as it is


def test_saved_folder_shows_the_failure_without_sliceport(differ: Differ, tmp_path: Path) -> None:
    from sliceport.diffing.save import save as write

    report = diff(save(DROPPED, tmp_path / "model.onnx"), on="onnxruntime-cpu")
    write(report, tmp_path / "out")
    script = (tmp_path / "out" / "run.py").read_text()
    assert "sliceport" not in script
    assert len(script.splitlines()) <= 25
    done = subprocess.run([sys.executable, "run.py"], check=False, cwd=tmp_path / "out", capture_output=True, text=True)
    assert "differs" in done.stdout, done.stderr
    issue = (tmp_path / "out" / "issue.md").read_text()
    assert issue.startswith("# Neg, Slice: wrong shape on onnxruntime-cpu")
    assert "EliminateSlice" in issue

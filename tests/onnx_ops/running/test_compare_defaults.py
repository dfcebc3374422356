"""`compare` on models whose inputs have defaults, and on models that end, block or exhaust the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Invoke
from onnx_models import save
from platforms import ended_by

from onnx_ops.lowering import lower
from onnx_ops.model.read import read_any
from onnx_ops.running import compare as run_module
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.compare import compare
from onnx_ops.running.defaults import run_with_other_values
from onnx_ops.running.runnable import prepare_to_run
from onnx_ops.running.session import Captured
from sliceport.directml.lowered import LoweredNode
from sliceport.engines.comparison import Comparison, ReferenceRun, compare_node
from sliceport.engines.engine import Engine, WholeModel
from sliceport.engines.side import BudgetSpent, Side

WEIGHTS = "float[8] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}"
CUTS = f"""(float[8] x, float[8] w) => (y, z) <int64[1] s = {{1}}, int64[1] e = {{5}}, {WEIGHTS}> {{
    y = Slice (x, s, e)  z = Slice (w, s, e)
}}"""
ENDLESS = """(float[8] x) => (float[3] y) <int64[1] s = {1}, int64[1] e = {4}, bool g = {1}> {
    p = Slice (x, s, e)
    y = Loop ("", g, p) <
        body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w) { d = Identity (c) w = Neg (v) }
    >
}"""


def saved(folder: Path) -> Path:
    """Save a model of two cuts: of input `x`, and of input `w`, which has a default."""
    return save(CUTS, folder / "m.onnx")


def test_compare_runs_the_default_and_another_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(lowered: LoweredNode, engine: Engine, run: ReferenceRun, model: Any) -> Comparison:
        value = run.values[lowered.node.input]
        assert isinstance(value, Captured)
        seen.append((lowered.node.input, value.array().tolist()))
        return compare_node(lowered, engine, run, model)

    monkeypatch.setattr(run_module, "compare_node", spy)
    report = compare(saved(tmp_path))
    assert report.is_clean
    assert [c.bytes_compared for c in report.comparisons] == [16, 16]
    first, other = (values for name, values in seen if name == "w")
    assert first == [1, 2, 3, 4, 5, 6, 7, 8]
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_a_mismatch_with_the_other_value_alone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """Let the program take the default for a constant."""

    def constant(lowered: LoweredNode, engine: Engine, run: ReferenceRun, model: Any) -> Comparison:
        if lowered.node.input == "w":
            default = Captured.of(np.arange(1, 9, dtype=np.float32))
            run = replace(run, values={**run.values, "w": default}, cache={})
        return compare_node(lowered, engine, run, model)

    monkeypatch.setattr(run_module, "compare_node", constant)
    path = saved(tmp_path)
    report = compare(path)
    assert [c.status for c in report.comparisons] == ["equal", "mismatch"]
    assert report.comparisons[1].detail.endswith(" This is with other values than the defaults of 'w'.")
    assert "This is with other values" in invoke("compare", path, code=1).out


def test_before_version_4_an_initializer_is_a_constant(tmp_path: Path, invoke: Invoke) -> None:
    inputs = "(float[8] x, float[8] w, int64[1] s, int64[1] e)"
    save(CUTS.replace("(float[8] x, float[8] w)", inputs), tmp_path / "old.onnx", ir_version=3)
    assert compare(tmp_path / "old.onnx").is_clean
    np.save(tmp_path / "w.npy", np.ones(8, np.float32))
    printed = invoke("compare", tmp_path / "old.onnx", "--input", f"w={tmp_path / 'w.npy'}", code=2)
    assert "input 'w' is a constant, an initializer before IR version 4; give no array" in printed.err


def test_value_that_onnxruntime_does_not_return_beside_strings_is_named(tmp_path: Path, invoke: Invoke) -> None:
    nodes = "t = Identity (s)  h = Cast<to = 16> (x)  y = Slice (h, a, b)"
    save(f"(string[1] s, float[4] x) => (t, y) <int64[1] a = {{1}}, int64[1] b = {{3}}> {{ {nodes} }}", tmp_path / "m")
    printed = invoke("compare", tmp_path / "m", code=2)
    assert "onnxruntime cannot return 'h' to Python: its type has no NumPy type, and an input of" in printed.err


def test_an_array_may_replace_the_default(tmp_path: Path) -> None:
    report = compare(saved(tmp_path), inputs={"w": np.arange(8, 16, dtype=np.float32)})
    assert report.is_clean


def test_a_model_that_ends_the_engine_is_an_error(tmp_path: Path, invoke: Invoke) -> None:
    constants = "<int64[2] minus = {-1, -1}, int64[1] s = {0}, int64[1] e = {1}>"
    save(f"(int64[2] x) => (y) {constants} {{ q = Div (x, minus)  y = Slice (q, s, e) }}", tmp_path / "m.onnx")
    assert lower(tmp_path / "m.onnx").summary["lowered"] == 1
    np.save(tmp_path / "x.npy", np.array([-(2**63), 3]))
    printed = invoke("compare", tmp_path / "m.onnx", "--input", f"x={tmp_path / 'x.npy'}", code=2)
    assert f"its process {ended_by('SIGFPE')}" in printed.err
    invoke("compare", tmp_path / "m.onnx")


def test_inputs_that_would_fill_the_memory_are_not_made(tmp_path: Path, invoke: Invoke) -> None:
    graph = "(float[2147483648] x) => (y) <int64[1] s = {0}, int64[1] e = {9}> { y = Slice (x, s, e) }"
    save(graph, tmp_path / "m.onnx")
    assert "give an array with --input" in invoke("compare", tmp_path / "m.onnx", code=2).err


@pytest.mark.parametrize("seed", [0, 1])
def test_findings_of_the_first_run_stand(tmp_path: Path, seed: int) -> None:
    report = compare(saved(tmp_path), seed=seed)
    assert {c.detail for c in report.comparisons} == {""}


@pytest.mark.parametrize(
    "words", [["compare"], ["rewrite", "--verify", "-o", "out.onnx"]], ids=lambda words: str(words[0])
)
def test_a_timeout_ends_a_loop_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    twice = ENDLESS.replace("y = Loop", "q = Slice (x, s, e)  y = Loop").replace("w = Neg (v)", "w = Add (v, q)")
    path = save(twice, tmp_path / "m.onnx")
    printed = invoke(*words, path, "--timeout", "3", code=2)
    assert printed.err == f"sliceport: '{path}': it takes more than 3 s; --timeout 0 disables the limit.\n"
    assert not (tmp_path / "out.onnx").exists()


def test_other_values_that_take_too_long_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check values such as a condition that makes a Loop endless."""

    def run(_side: Side, _model: WholeModel, inputs: dict[str, Any], _places: object = None) -> dict[str, Any]:
        if "w" in inputs:
            raise BudgetSpent("it takes more than 60 s.")
        return {}

    monkeypatch.setattr(Side, "try_run", run)
    x = np.ones(8, np.float32)
    runnable = prepare_to_run(read_any(saved(tmp_path)))
    run_of_others, notes = run_with_other_values(runnable, onnxruntime_cpu.side(), {"x": x})
    assert run_of_others is None
    assert notes == ("'w' kept the default: no other value was tried, or none let the model run in time.",)

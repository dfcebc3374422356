"""The hunt: failures are reduced by the values of their graph, grouped, and counted as known if `check` names them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

from conformance import hunt
from conformance.__main__ import main
from conformance.cases import Case
from conformance.engine import load_engines
from conformance.hunt import Hunt, cut_smaller
from sliceport.cases.random_graphs import draw_graph
from sliceport.errors import ModelError


def judge_by(trigger: str, seen: list[int]) -> Any:
    """Return a stand-in for `run_engine` on which models with an operator are wrong."""

    def run_engine(_engine: object, cases: Sequence[Case], *_: object) -> dict[str, Any]:
        seen.append(len(cases))
        wrong = {"verdict": "wrong", "detail": "gives [0] instead of [1]"}
        right = {"verdict": "equal", "detail": ""}
        return {case.name: wrong if trigger in operators(case) else right for case in cases}

    return run_engine


def operators(case: Case) -> set[str]:
    return {node.op_type for node in onnx.load(case.model).graph.node} if case.format == "onnx" else set()


@pytest.fixture
def hunting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hunt:
    monkeypatch.setattr(hunt, "_BATCH", 10)
    (engine,) = load_engines(["onnxruntime"])
    return Hunt(engine, tmp_path, Path("python"), 5)


def test_failures_are_reduced_to_what_fails(hunting: Hunt, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    monkeypatch.setattr(hunt, "run_engine", judge_by("Transpose", runs))
    counts = hunting.run(minutes=1e-3, seed=0)
    new = {outcome.removeprefix("new: ") for outcome in counts if outcome.startswith("new: ")}
    assert "wrong-onnx-transpose" in new
    assert all(group.split("-")[2] == "transpose" and len(group.split("-")) <= 5 for group in new)
    assert {folder.name for folder in (hunting.folder / "new").iterdir()} == new
    folder = hunting.folder / "new" / "wrong-onnx-transpose"
    assert [node.op_type for node in onnx.load(folder / "model.onnx").graph.node] == ["Transpose"]
    assert (folder / "test_data_set_0" / "output_0.pb").exists()
    assert 'engine = "onnxruntime-cpu", does = "gives [0] instead of [1]"' in (folder / "entry.toml").read_text()


def test_the_next_hunt_goes_on_behind_the_last_one(hunting: Hunt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunt, "run_engine", judge_by("NoSuchOperator", []))
    first = hunting.run(minutes=1e-3, seed=40).total()
    state = json.loads((hunting.folder / "state.json").read_text())
    assert state["next"] >= 50
    assert hunting.run(minutes=1e-3, seed=0).total() > first
    assert json.loads((hunting.folder / "state.json").read_text())["next"] > state["next"]


def test_defects_that_check_names_are_known(hunting: Hunt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunt, "run_engine", judge_by("Transpose", []))
    monkeypatch.setattr(Hunt, "known_defects", lambda *_: ["a defect"])
    counts = hunting.run(minutes=0.01, seed=0)
    assert {outcome for outcome in counts if outcome != "right"} == {"known: a defect"}
    assert not (hunting.folder / "new").exists()


def test_engine_that_does_not_read_a_graph_has_no_known_defect(hunting: Hunt, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: object, **__: object) -> None:
        raise ModelError("the model cannot be read.")

    assert hunting.known_defects(draw_graph(7, 17)) == []
    monkeypatch.setattr("sliceport.check", check)
    assert hunting.known_defects(draw_graph(7, 17)) == []


def test_cut_graphs_have_the_right_values() -> None:
    graph = draw_graph(7, 17)
    smaller = list(cut_smaller(graph))
    assert smaller
    for each in smaller:
        assert each.outputs.keys() == each.graph.outputs.keys()
        for name, array in {**each.inputs, **each.outputs}.items():
            assert array is graph.values[name]


def test_counts_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hunt, "run_engine", judge_by("Transpose", []))
    monkeypatch.setattr("conformance.engine.Engine.python", lambda *_: Path("python"))
    assert main(["hunt", "onnxruntime", "--minutes", "0.01", "--hunts", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert " right\n" in printed
    assert f"new failures are in {tmp_path / 'onnxruntime' / 'new'}" in printed

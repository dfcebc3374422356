"""The pages of diff and check, and their node data for Model Explorer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import parse, save
from planted_faults import Fault, Faulty, fuse, refuse, swap

from onnx_ops.model.declared import node_ids
from sliceport.cli.main import main
from sliceport.diffing import side
from sliceport.diffing.diff import diff
from sliceport.diffing.report import DiffReport
from sliceport.engines.registry import model_engines
from sliceport.report.diff_page import diff_node_data, diff_page
from sliceport.report.drawing import draw

pytest.importorskip("jinja2")

HOSTILE = "</title></style><script>alert(1)</script>{{ 7 * 7 }}\u202e"
CHAIN = """(float[3,4] x) => (float[3,4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    [a] a = Mul (x, w)  [b] b = Add (a, w)  [c] c = Sigmoid (b)  [d] d = Add (c, b)  [e] y = Tanh (d)
}"""
BODY = """(bool k, float[3] x) => (float[3] y) {
    [holder] y = If (k) <
        then_branch = t () => (float[3] p) { [inner] p = Neg (x) },
        else_branch = e () => (float[3] q) { [other] q = Neg (x) }>
}"""
GATE = "(float[4] x) => (float[2] w) { p, q = Split(x)  g = Sigmoid(q)  w = Mul(p, g) }"


class Elements(HTMLParser):
    """The names of elements, their attributes, and the texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def assert_complete(page: str) -> Elements:
    """Check that a page runs no script and loads nothing."""
    elements = Elements(page)
    assert not {"script", "img", "link", "iframe", "object"} & set(elements.tags)
    assert {name for name, value in elements.attributes if value and "://" in value} <= {"href"}
    assert not re.search(r"url\(|@import", page)
    assert "default-src 'none'; style-src 'sha256-" in page
    return elements


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Compare an engine with a fault with onnxruntime's CPU provider."""

    def run(graph: str | onnx.ModelProto, fault: Fault, **options: Any) -> DiffReport:
        known = {**model_engines(), "faulty": Faulty(fault)}
        monkeypatch.setattr(side, "model_engines", lambda: known)
        onnx.save(parse(graph) if isinstance(graph, str) else graph, tmp_path / "model.onnx")
        return diff(tmp_path / "model.onnx", on="faulty", **options)

    return run


def test_page_of_diff_shows_both_sides(compare: Any) -> None:
    report = compare(CHAIN, swap("c", "Tanh"))
    elements = assert_complete(diff_page(report, ["model.onnx"]))
    (output,) = report.part.outputs
    assert output.samples[0][0] == "[0, 0]"
    for sample in output.samples:
        assert set(sample) <= set(elements.texts)
    assert {"Sigmoid", "c"} <= set(elements.texts)
    assert ("class", "culprit") in elements.attributes


def test_page_of_a_failed_run_shows_what_is_expected(compare: Any) -> None:
    report = compare(CHAIN, refuse("Sigmoid"))
    elements = assert_complete(diff_page(report, ["model.onnx"]))
    assert {report.part.outputs[0].samples[0][2], "none"} <= set(elements.texts)


def test_hostile_names_stay_text(compare: Any) -> None:
    model = parse(CHAIN)
    model.graph.node[2].name = HOSTILE
    report = compare(model, swap(HOSTILE, "Tanh"))
    page = diff_page(report, [HOSTILE])
    elements = assert_complete(page)
    assert "\u202e" not in page
    assert any(text.startswith("</title></style><script>alert(1)") for text in elements.texts)
    assert "49" not in elements.texts
    assert json.loads(diff_node_data(report, None))["results"].keys() == {HOSTILE}


def test_large_part_is_listed(compare: Any) -> None:
    report = compare(CHAIN, swap("c", "Tanh"))
    part = replace(report.part, case=replace(report.part.case, numbers=(2,) * 31))
    page = diff_page(replace(report, part=part), ["model.onnx"])
    assert "<svg" not in page
    assert page.count("<li>Sigmoid <code>c</code></li>") == 31


def test_drawing_has_layers_by_depth_and_bends_around_boxes(compare: Any) -> None:
    graph = "(float[3] x) => (float[3] y) { [r] r = Relu (x) [s] s = Sigmoid (r) [m] y = Add (r, s) }"
    case = compare(graph, fuse("Sigmoid", "Add", "Sub")).part.case
    whole = replace(case, numbers=(0, 1, 2), inputs={"x": np.ones(3, np.float32)}, outputs=("y",))
    boxes, width, _ = draw(whole, ["y"])
    depths = [(box.lines[:1], box.kind, box.depth) for box in boxes]
    assert depths == [
        (("x",), "input", 0),
        (("Relu",), "node", 1),
        (("Sigmoid",), "node", 2),
        (("Add",), "culprit", 3),
        (("y",), "wrong output", 4),
        ((), "bend", 2),
    ]
    for layer in range(5):
        row = sorted((box for box in boxes if box.depth == layer), key=lambda box: box.x)
        edges = [edge for box in row for edge in (box.x - box.width / 2, box.x + box.width / 2)]
        assert edges == sorted(edges)
        assert max(map(abs, edges)) <= width / 2


def test_node_data_of_diff_has_the_nodes_of_the_part(compare: Any) -> None:
    report = compare(CHAIN, fuse("Sigmoid", "Add", "Sub"))
    results = json.loads(diff_node_data(report, {"c": "c", "d": "d_1"}))["results"]
    assert {key: value["bgColor"] for key, value in results.items()} == {"c": "#f9ab00", "d_1": "#d93025"}
    assert results["d_1"]["value"] == report.part.case.failure.message


def test_node_data_of_a_body_name_its_holder(compare: Any) -> None:
    report = compare(BODY, swap("inner", "Abs"), seeds=8)
    if report.is_equal or report.part.case.culprit.name == "other":
        report = compare(BODY, swap("other", "Abs"), seeds=8)
    assert report.part.case.scope
    assert list(json.loads(diff_node_data(report, None))["results"]) == ["holder"]


def test_ids_are_unique_and_by_name_and_output(tmp_path: Path) -> None:
    model = parse("(float[3] x) => (float[3] y) { a = Neg (x) [n] b = Abs (a) [n] c = Exp (b) y = Log (c) }")
    onnx.save(model, tmp_path / "model.onnx")
    assert node_ids(tmp_path / "model.onnx") == {"a": "node", "b": "n", "c": "n_1", "n": "n", "y": "node_1"}


def test_check_writes_a_page_and_node_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save(GATE, tmp_path / "gate.onnx", 13)
    words = ["check", "gate.onnx", "--html", "page.html", "--model-explorer", "nodes.json"]
    assert main(words) == 1
    elements = assert_complete((tmp_path / "page.html").read_text("utf-8"))
    assert {"gate.onnx", "defect", " 1 Split: one part gates another", "p"} <= set(elements.texts)
    results = json.loads((tmp_path / "nodes.json").read_text("utf-8"))["results"]
    assert results == {"node": {"value": "one part gates another", "bgColor": "#f9ab00"}}
    assert main(words) == 2
    assert "output 'page.html' exists; give another name or --overwrite." in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 1
    assert main(["check", "gate.onnx", "gate.onnx", "--model-explorer", "other.json"]) == 2
    assert "--model-explorer takes one model, got 2." in capsys.readouterr().err


def test_diff_writes_a_page_and_node_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(CHAIN, tmp_path / "model.onnx")
    words = ["diff", "model.onnx", "--on", "onnxruntime-cpu", "--html", "page.html", "--model-explorer", "nodes.json"]
    assert main(words) == 0
    assert_complete((tmp_path / "page.html").read_text("utf-8"))
    assert json.loads((tmp_path / "nodes.json").read_text("utf-8"))["results"] == {}

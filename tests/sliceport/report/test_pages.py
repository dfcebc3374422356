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
from command_line import Invoke
from onnx_models import parse, save
from planted_faults import Fault, Faulty, fuse, refuse, swap

from onnx_ops.model.declared import node_ids
from sliceport import check
from sliceport.defects.table import DEFECTS
from sliceport.engines import side
from sliceport.engines.registry import model_engines
from sliceport.errors import ModelError
from sliceport.report.check import check_page
from sliceport.report.diff import diff_page
from sliceport.report.drawing import lay_out
from sliceport.report.model_explorer import node_data_of_check, node_data_of_diff
from sliceport.search.diff import diff
from sliceport.search.report import DiffReport

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
GATE = """(float[4] x, bool k) => (float[2] w, float[2] o) {
    p, q = Split(x)  g = Sigmoid(q)  w = Mul(p, g)
    [holder] o = If (k) <
        then_branch = t () => (float[2] a) { r, s = Split(x)  h = Sigmoid(s)  a = Mul(r, h) },
        else_branch = e () => (float[2] b) { b = Neg(g) }>
}"""


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
    """Compare an engine with a fault with onnxruntime's CPU provider, on `model.onnx` in the current folder."""
    monkeypatch.chdir(tmp_path)

    def run(model: str | onnx.ModelProto, fault: Fault, **inputs: Any) -> DiffReport:
        known = {**model_engines(), "faulty": Faulty(fault)}
        monkeypatch.setattr(side, "model_engines", lambda: known)
        onnx.save(parse(model) if isinstance(model, str) else model, "model.onnx")
        return diff("model.onnx", on="faulty", inputs=inputs)

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
    with_defects = replace(report, parts=[replace(report.part, defects=DEFECTS)])
    assert "`" not in "".join(assert_complete(diff_page(with_defects, ["model.onnx"])).texts)


def test_page_of_two_models_names_the_engine_of_each(compare: Any) -> None:
    report = compare(CHAIN, swap("c", "Tanh"))
    texts = assert_complete(diff_page(report, ["a.onnx", "b.onnx"])).texts
    assert texts[texts.index("A runs on") + 1] == report.on
    assert texts[texts.index("B runs on") + 1] == report.against
    assert "In question" not in texts


def test_page_of_a_failed_run_shows_what_is_expected(compare: Any) -> None:
    report = compare(CHAIN, refuse("Sigmoid"))
    elements = assert_complete(diff_page(report, ["model.onnx"]))
    assert {report.part.outputs[0].samples[0][2], "none"} <= set(elements.texts)


def test_hostile_names_stay_text(compare: Any) -> None:
    model = parse(CHAIN)
    model.graph.node[2].name = HOSTILE
    report = compare(model, swap(HOSTILE, "Tanh"))
    rules = check("model.onnx").to_json() | {"model": HOSTILE, "error": HOSTILE}
    for page in (diff_page(report, [HOSTILE]), check_page([rules])):
        texts = assert_complete(page).texts
        assert "\u202e" not in page
        assert HOSTILE.replace("\u202e", r"\u202e") in texts
    assert json.loads(node_data_of_diff(report, "model.onnx"))["results"].keys() == {HOSTILE}


def test_large_part_is_listed(compare: Any) -> None:
    report = compare(CHAIN, swap("c", "Tanh"))
    part = replace(report.part, case=replace(report.part.case, numbers=(2,) * 31))
    page = diff_page(replace(report, parts=(part,)), ["model.onnx"])
    assert "<svg" not in page
    assert page.count("<li>Sigmoid <code>c</code></li>") == 31


def test_drawing_has_layers_by_depth_and_bends_around_boxes(compare: Any) -> None:
    graph = "(float[3] x) => (float[3] y) { [r] r = Relu (x) [s] s = Sigmoid (r) [m] y = Add (r, s) }"
    case = compare(graph, fuse("Sigmoid", "Add", "Sub")).part.case
    case = replace(case, numbers=(0, 1, 2), inputs={"x": np.ones(3, np.float32)}, outputs=("y",))
    boxes, width, _ = lay_out(case, ["y"])
    assert [(box.kind, box.lines[:1], box.depth) for box in boxes] == [
        ("input", ("x",), 0),
        ("node", ("Relu",), 1),
        ("node", ("Sigmoid",), 2),
        ("culprit", ("Add",), 3),
        ("wrong output", ("y",), 4),
        ("bend", (), 2),
    ]
    for layer in range(5):
        row = sorted((box for box in boxes if box.depth == layer), key=lambda box: box.x)
        edges = [edge for box in row for edge in (box.x - box.width / 2, box.x + box.width / 2)]
        assert edges == sorted(edges)
        assert max(map(abs, edges)) <= width / 2


def test_node_data_of_diff_have_the_nodes_of_the_part(compare: Any) -> None:
    report = compare(CHAIN, fuse("Sigmoid", "Add", "Sub"))
    results = json.loads(node_data_of_diff(report, "model.onnx"))["results"]
    assert {id_: value["bgColor"] for id_, value in results.items()} == {"c": "#f9ab00", "d": "#d93025"}
    assert results["d"]["value"] == report.part.case.failure.message


def test_node_data_of_a_body_have_the_node_and_the_one_around_it(compare: Any) -> None:
    report = compare(BODY, swap("inner", "Abs"), k=np.array(True))
    assert report.part.case.scope
    results = json.loads(node_data_of_diff(report, "model.onnx"))["results"]
    assert list(results) == ["holder", "holder/then_branch/inner"]


def test_node_around_a_part_has_the_color_of_the_culprit(compare: Any) -> None:
    graph = BODY.replace("[inner] p = Neg (x)", "[first] r = Exp (x)  [inner] p = Neg (r)")
    report = compare(graph, swap("inner", "Abs"), k=np.array(True))
    case = replace(report.part.case, numbers=(0, 1))
    results = json.loads(node_data_of_diff(replace(report, parts=(replace(report.part, case=case),)), "model.onnx"))
    colors = {id_: value["bgColor"] for id_, value in results["results"].items()}
    inner = {"holder/then_branch/first": "#f9ab00", "holder/then_branch/inner": "#d93025"}
    assert colors == {"holder": "#d93025"} | inner


NESTED = """(float[3] x, int64 n, bool c) => (float[3] y) {
    [loop] y = Loop (n, c, x) < body = b (int64 i, bool d, float[3] s) => (bool k, float[3] t) {
        k = Identity (d)  [same] v = Abs (s)
        [branches] t = If (d) <
            then_branch = p () => (float[3] q) { [same] q = Neg (v) },
            else_branch = e () => (float[3] r) { r = Identity (v) }> }>
}"""


def test_node_data_of_a_body_in_a_body_have_only_the_outermost_node(compare: Any) -> None:
    report = compare(NESTED, refuse("Neg"), n=np.array(2), c=np.array(True))
    assert (report.part.case.culprit.name, len(report.part.case.scope)) == ("same", 2)
    assert list(json.loads(node_data_of_diff(report, "model.onnx"))["results"]) == ["loop"]


FUNCTION = """<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
g (float[4] x) => (float[1] y) { [call] a = local.f (x)  [n] b = Neg (a)  [again] y = local.f (b) }
<domain: "local", opset_import: ["" : 13]> f (p) => (q) {
    [n] r = Abs (p)  [split] s, t = Split (r)  [gate] u = Sigmoid (t)  [product] q = Mul (s, u) }"""


def test_nodes_of_functions_are_marked_in_the_graph_of_the_function(compare: Any) -> None:
    model = "model.onnx"
    report = compare(onnx.parser.parse_model(FUNCTION), swap("n_2", "Sin"))
    for text in (
        node_data_of_diff(report, model),
        node_data_of_check({"model": model, **check(model).to_json()}, model),
    ):
        marks = {graph: list(data["results"]) for graph, data in json.loads(text).items()}
        assert marks == {"g": [], "[function]local::f": ["n"] if "sliceport diff" in text else ["split"]}


def test_first_node_of_a_function_has_the_id_of_its_name(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(FUNCTION.replace("[split]", "[n]"))
    assert node_ids(save(model, tmp_path / "model.onnx"))["[function]local::f"]["f.n"] == "n"


def test_ids_are_unique_and_by_name_and_output(tmp_path: Path) -> None:
    graph = "(float[3] x) => (float[3] y) { a = Neg (x) [n] b = Abs (a) [n] c = Exp (b) y = Log (c) }"
    ids = node_ids(save(graph, tmp_path / "model.onnx"))
    assert ids == {"g": {"a": "node", "b": "n", "c": "n_1", "n": "n", "y": "node_1"}}


def test_ids_of_a_model_that_onnx_ir_cannot_represent_are_refused(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(FUNCTION)
    model.graph.initializer.add(name="w", data_type=99)
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=r"model\.onnx': the model cannot be represented: .*99"):
        node_ids(tmp_path / "model.onnx")


def test_bodies_have_ids_of_their_own(tmp_path: Path) -> None:
    ids = node_ids(save(BODY, tmp_path / "model.onnx"))
    assert list(ids) == ["g"]
    assert (
        list(ids["g"].values()) == ["holder"] * 2 + ["holder/then_branch/inner"] * 2 + ["holder/else_branch/other"] * 2
    )
    loop = """(float[3] x, int64 n, bool c) => (float[3] y) { [loop] y = Loop (n, c, x) <
        body = b (int64 i, bool d, float[3] s) => (bool k, float[3] t) { k = Identity (d) [step] t = Neg (s) }> }"""
    assert node_ids(save(loop, tmp_path / "loop.onnx")) == {
        "g": {"y": "loop", "loop": "loop"},
        "loop/body": {"t": "step", "step": "step", "k": "node"},
    }


def test_commands_write_pages_and_node_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    monkeypatch.chdir(tmp_path)
    save(GATE, tmp_path / "gate.onnx", 13)
    outputs = ["--html", "page.html", "--model-explorer", "nodes.json"]
    invoke("check", "gate.onnx", *outputs, code=1)
    elements = assert_complete(Path("page.html").read_text("utf-8"))
    assert {"gate.onnx", "defect", " 2 Split: one part gates another", "holder.then_branch/r"} <= set(elements.texts)
    results = json.loads(Path("nodes.json").read_text("utf-8"))["results"]
    value = {"value": "one part gates another", "bgColor": "#f9ab00"}
    assert results == {"node": value, "holder": value, "holder/then_branch/node": value}
    printed = invoke("diff", "gate.onnx", "--on", "onnxruntime-cpu", *outputs, code=2)
    assert "output 'page.html' exists; give another name or --overwrite." in printed.err
    invoke("diff", "gate.onnx", "--on", "onnxruntime-cpu", *outputs, "--overwrite")
    assert "onnxruntime-cpu:level=none" in Path("page.html").read_text("utf-8")
    assert json.loads(Path("nodes.json").read_text("utf-8"))["results"] == {}
    for name, index in (("bad", "i"), ("good", "zero")):
        nodes = f"[{name}] y = Gather (x, {index})  z = Neg (y)"
        save(f"(float[3] x, int64 i) => (z) <int64 zero = {{0}}> {{ {nodes} }}", tmp_path / f"{name}.onnx")
    np.save("i.npy", np.int64(9))
    printed = invoke("diff", "bad.onnx", "good.onnx", "--input", "i=i.npy", *outputs, "--overwrite", code=1)
    assert "does not run the first model" in printed.out
    assert list(json.loads(Path("nodes.json").read_text("utf-8"))["results"]) == ["bad"]
    printed = invoke("check", "gate.onnx", "gate.onnx", "--model-explorer", "other.json", code=2)
    assert "--model-explorer takes one model, got 2." in printed.err

"""Verdicts in the metadata of an annotated model's nodes."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx_models import parse

import sliceport
from onnx_ops.model.proto_walk import model_nodes

BRANCHES = """(bool c, float[4] x, float[n] z) => (float[a] y) <int64[1] s = {0}, int64[1] e = {2}> {
    y = If(c) <
        then_branch = th () => (float[b] t) { t = Slice(x, s, e) },
        else_branch = el () => (float[d] t) { t = Slice(z, s, e) }
    >
}"""
CALLS = """(float[4] x, float[n] z) => (float[a] y, float[b] w) { y = own.F(x)  w = own.F(z) }
<domain: "own", opset_import: ["" : 13]> F (data) => (part) {
    s = Constant<value_ints = [0]>()
    e = Constant<value_ints = [2]>()
    part = Slice(data, s, e)
}"""


def verdicts(model: onnx.ModelProto, folder: Path) -> list[str]:
    """Return the verdict of each Slice in the annotated model."""
    sliceport.lower(model).write(folder / "out")
    slices = [n for n in model_nodes(onnx.load(folder / "out" / "model.onnx")) if n.op_type == "Slice"]
    return [entry.value for n in slices for entry in n.metadata_props if entry.key == "io.sliceport.verdict"]


def test_branches_may_use_the_same_names(tmp_path: Path) -> None:
    assert verdicts(parse(BRANCHES, 13), tmp_path) == ["lowered", "refused"]


def test_node_of_a_function_differs_by_call(tmp_path: Path) -> None:
    assert verdicts(parse(CALLS, 13, own=1), tmp_path) == ["differs by call"]


UNSORTED = """(bool c, float[8] x, int64[1] n) => (float[4] z, float[4] w) <int64[1] s = {0}, int64[1] e = {4}> {
    z = If(c) <
        then_branch = th () => (float[4] t) { t = Slice(y, s, n) },
        else_branch = el () => (float[4] t) { t = Identity(y) }
    >
    y = If(c) <
        then_branch = th () => (float[4] t) { t = Slice(x, s, e) },
        else_branch = el () => (float[4] t) { t = Slice(x, s, n) }
    >
    w = own.F(x, s, e, n)
}
<domain: "own", opset_import: ["" : 13]> F (x, s, e, n) => (part) {
    part = Slice(first, s, n)
    first = Slice(x, s, e)
}"""


def test_nodes_of_unsorted_graphs_get_their_own_verdicts(tmp_path: Path) -> None:
    model = parse(UNSORTED, 13, own=1)
    model.graph.node[0].name = model.graph.node[1].name = "same"
    model.training_info.add().algorithm.name = "training"
    sliceport.lower(model).write(tmp_path / "out")
    annotated = onnx.load(tmp_path / "out" / "model.onnx")
    assert annotated.training_info == model.training_info
    slices = [n for n in model_nodes(annotated) if n.op_type == "Slice"]
    assert {(n.input[2], n.metadata_props[0].value) for n in slices} == {("e", "lowered"), ("n", "refused")}

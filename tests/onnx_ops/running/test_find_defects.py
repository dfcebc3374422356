"""`diff` knows the defects of an engine that `check` knows, also if the engine converts the model."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_models import parse, save

import sliceport
from onnx_ops.running.onnx_graph import OnnxGraph
from sliceport.defects.engines import OPENVINO_CPU

STRINGS = "(string[6] x) => (string[n] y) <int64[1] s = {1}, int64[1] e = {5}> { y = Slice(x, s, e) }"
FAR_STEP = (
    "(float[6] x) => (float[n] y) <int64[1] s = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {0}, "
    "int64[1] t = {-2147483648}> { y = Slice(x, s, e, a, t) }"
)
NOT_CONVERTED = "(float[6] x) => (float[n] y) { t = other.Op(x)  y = Neg(t) }"


@pytest.mark.parametrize(("graph", "rule"), [(STRINGS, "strings"), (FAR_STEP, "stride-beyond-32-bits")])
def test_defects_of_an_engine_that_converts_the_model_are_known(tmp_path: Path, graph: str, rule: str) -> None:
    pytest.importorskip("openvino")
    model = parse(graph, 13)
    checked = sliceport.check(save(model, tmp_path / "m.onnx"), engines=[OPENVINO_CPU])
    assert rule in [one.defect.rule for one in checked.findings]
    opened = OnnxGraph(model)
    found = opened.find_defects(opened.nodes, {}, OPENVINO_CPU)
    assert {one.defect for one in checked.findings} == set(found)
    assert not opened.find_defects(opened.nodes, {}, "onnxruntime-dml")


def test_model_that_the_engine_does_not_convert_has_no_defects() -> None:
    pytest.importorskip("openvino")
    opened = OnnxGraph(parse(NOT_CONVERTED, 13, other=1))
    assert opened.find_defects(opened.nodes, {}, OPENVINO_CPU) == []

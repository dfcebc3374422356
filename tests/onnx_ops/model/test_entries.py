"""Models of so many parts that reading or rewriting them would take gigabytes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx_ops.model.entries import count_entries

import sliceport
from onnx_ops.format import _ENTRIES
from onnx_ops.model import check
from onnx_ops.model.check import check_proto
from onnx_ops.passes.first_look import count_nodes
from sliceport.errors import ModelError, UsageError

MODELS = Path(__file__).parents[3] / "models"
SLICE = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[4] x) => (float[n] y) <int64[1] i = {0}, int64[1] j = {3}> { y = Slice(x, i, j) }"""
COUNTED = [
    (SLICE, 1 + 4 + 2 * 2 + 2 + 2 + 5),
    ('<ir_version: 9, opset_import: ["" : 18]> g (float x) => (float y) { y = Cast<to = 1>(x) }', 1 + 4 + 1 + 1 + 4),
    (
        """<ir_version: 9, opset_import: ["" : 18, "f" : 1]> g (float x) => (float y) { y = f.h(x) }
            <domain: "f", opset_import: ["" : 18]> h (a) => (b) { b = Abs(a) }""",
        2 + 4 + 1 + 1 + 3 + 4 + 1 + 2 + 3,
    ),
    (
        """<ir_version: 9, opset_import: ["" : 18]> g (bool c, float x) => (float y) {
            y = If (c) <then_branch = t () => (float[2, 3] p) { p = Neg(x) },
                        else_branch = e () => (q) { q = Abs(x) }> }""",
        1 + 4 + 3 + 5 + (4 + 3 + 3) + (4 + 1 + 3),
    ),
]


@pytest.mark.parametrize(("text", "count"), COUNTED)
def test_what_is_counted(text: str, count: int) -> None:
    proto = onnx.parser.parse_model(text)
    assert count_entries(proto, 1000) == count
    for most in range(count):
        assert most < count_entries(proto, most) <= count


def test_counting_ends_where_there_are_too_many() -> None:
    proto = onnx.parser.parse_model(SLICE)
    proto.graph.node.extend([proto.graph.node[0]] * 1000)
    proto.graph.value_info.extend([proto.graph.input[0]] * 1000)
    assert count_entries(proto, 100) < 2200
    assert count_entries(proto, 10**6) > 7000


def test_a_model_of_too_many_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = onnx.parser.parse_model(SLICE)
    count = count_entries(proto, 1000)
    monkeypatch.setattr(check, "MAX_ENTRIES", count)
    check_proto(proto)
    monkeypatch.setattr(check, "MAX_ENTRIES", count - 1)
    with pytest.raises(ModelError, match=f"more than {count - 1} nodes, values, attributes, tensors and sizes"):
        check_proto(proto)


def test_a_model_of_many_is_not_rewritten(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(SLICE)
    proto.graph.node[0].metadata_props.extend(onnx.StringStringEntryProto(key=f"{i}") for i in range(10))
    file, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(proto, file)
    with pytest.raises(
        UsageError, match="more than 20 nodes, .* 20 times as many as it may have nodes; max_nodes=0 sets"
    ):
        sliceport.rewrite(file, out, max_nodes=1)
    sliceport.rewrite(file, out, max_nodes=0)
    sliceport.rewrite(file, out, max_nodes=2, overwrite=True)


def test_real_models_have_far_fewer_for_each_node() -> None:
    ratios = []
    for file in sorted(MODELS.glob("*.onnx")):
        proto = onnx.load(file, load_external_data=False)
        nodes = count_nodes(proto)
        if nodes > 30:
            ratios.append(count_entries(proto, 10**6) / nodes)
    assert len(ratios) > 20
    assert max(ratios) < 0.75 * _ENTRIES

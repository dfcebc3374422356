"""A first look at a ModelProto finds whether passes may change or report anything."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from onnx_ops.model.io import from_proto
from onnx_ops.model.proto_walk import model_nodes
from onnx_ops.model.walk import all_nodes, count_uses, graphs_outside_functions
from onnx_ops.passes import BY_DEFAULT, PASSES, rewrite
from onnx_ops.passes.analysis import may_need_hardening
from onnx_ops.passes.directml.harden import EMPTY_REPORT, harden_for_directml
from onnx_ops.passes.rewrite.run import build_empty_report, may_need_rewriting
from sliceport.api import harden
from sliceport.api import rewrite as rewrite_file

MODELS = Path(__file__).parents[4] / "models"
BRANCH = """If (c) <then_branch = t () => (float[n] p) { p = %s }, else_branch = e () => (float[n] q) { q = Neg(x) }>"""
NOTHING = [
    "y = Neg(x)",
    "a = Squeeze(x) y = Unsqueeze(a, i)",
    "a = Identity(x) y = Identity(a)",
    "y = Squeeze(x, i, i)",
    "a = Squeeze(x) b = Neg(a) y = Unsqueeze(b, i)",
    f"c = Cast<to = 9>(z) y = {BRANCH % 'Abs(x)'}",
    "y = Reshape(x, i)",
]
VISITED = {op_type for kind in PASSES.values() for op_type in kind.op_types}
SOMETHING = [
    "y = Slice(x, i, i)",
    "a, y = Split(x)",
    "y = Gather(x, i)",
    "y = ov_ext.StridedSlice(x, i, i)",
    f"c = Cast<to = 9>(z) y = {BRANCH % 'Slice(x, i, i)'}",
]


def model(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18, "ov_ext" : 1, "local" : 1]>
        g (float[4] x, float z) => (y) <int64[1] i = {{1}}> {{ {body} }}"""
    )


@pytest.mark.parametrize("body", NOTHING)
def test_passes_report_nothing_if_the_first_look_finds_nothing(body: str) -> None:
    if VISITED.intersection(re.findall(r"\w+", body)):
        pytest.skip("a pass changes such nodes")
    proto = model(body)
    assert not may_need_rewriting(model_nodes(proto))
    assert rewrite(from_proto(proto), list(PASSES)) == build_empty_report(list(PASSES))
    assert harden_for_directml(from_proto(proto)) == EMPTY_REPORT


@pytest.mark.parametrize("body", SOMETHING)
def test_what_passes_may_report_is_found(body: str) -> None:
    assert may_need_rewriting(model_nodes(model(body)))


@pytest.mark.parametrize("way", ["function", "list of graphs"])
def test_functions_and_lists_of_graphs_are_looked_into(way: str) -> None:
    proto = model("y = local.f(x)")
    if way == "function":
        nodes = [onnx.helper.make_node("Slice", ["a", "b", "b"], ["c"])]
        opsets = [onnx.helper.make_opsetid("", 18)]
        proto.functions.append(onnx.helper.make_function("local", "f", ["a"], ["c"], nodes, opsets))
    else:
        bodies = [model("y = Neg(x)").graph, model("y = Slice(x, i, i)").graph]
        proto.graph.node[0].attribute.append(onnx.helper.make_attribute("bodies", bodies))
    assert may_need_rewriting(model_nodes(proto))
    assert may_need_hardening(proto)


def test_harden_looks_for_what_cuts_and_for_allowzero() -> None:
    assert not may_need_hardening(model("a = Identity(x) b = Identity(a) y = Reshape(b, i)"))
    assert may_need_hardening(model("y = Reshape<allowzero = 1>(x, i)"))


def test_a_file_in_which_nothing_is_found_is_written_as_it_is(tmp_path: Path) -> None:
    data = model("a = Erf(x) y = Erf(a)").SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    result = rewrite_file(tmp_path / "m.onnx", tmp_path / "a.onnx")
    assert result.changes == build_empty_report(BY_DEFAULT)
    assert (tmp_path / "a.onnx").read_bytes() == data
    assert harden(tmp_path / "m.onnx", tmp_path / "b.onnx").changes == EMPTY_REPORT
    assert (tmp_path / "b.onnx").read_bytes() == data


@pytest.mark.parametrize("path", sorted(MODELS.glob("rule_*.onnx")), ids=lambda path: path.stem)
def test_models_are_walked_as_onnx_ir_walks_them(path: Path) -> None:
    loaded = ir.load(path)
    assert list(all_nodes(loaded.graph)) == list(loaded.graph.all_nodes())
    assert graphs_outside_functions(loaded) == list(loaded.graphs())
    for function in loaded.functions.values():
        assert list(all_nodes(function)) == list(function.all_nodes())
    for node in loaded.graph.all_nodes():
        assert [count_uses(value) for value in node.outputs] == [len(value.uses()) for value in node.outputs]

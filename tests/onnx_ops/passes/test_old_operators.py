"""Slices move above operators whose meaning older operator sets, or attributes, make another."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper
from onnx_models import parse
from sessions import compute

from onnx_ops.model.io import from_proto
from onnx_ops.passes import MoveSlicesUpPass, rewrite


def cut(axis: int = 1) -> str:
    return f"[cut] y = Slice<starts = [0], ends = [1], axes = [{axis}]>(a)"


STAYS = {
    "broadcast by an axis": (6, "Add<axis = 1, broadcast = 1>(x, b)", "[3, 4]", "attributes"),
    "the trailing axes": (6, "Mul<broadcast = 1>(x, b)", "[4, 5]", "attributes"),
    "a scalar": (6, "Sub<broadcast = 1>(x, b)", "", "attributes"),
    "of the first versions": (1, "Div<axis = 1, broadcast = 1>(x, b)", "[3, 4]", "attributes"),
    "without saying so": (6, "Add(x, b)", "[1, 1, 1, 5]", "does not broadcast"),
    "logical": (1, "And<axis = 1, broadcast = 1>(x, b)", "[3, 4]", "not all sizes of 'a' are known"),  # not inferred
    "shape as an attribute": (1, "Reshape<shape = [2, 3, 20]>(x)", "[3, 4]", "does not have its shape as an input"),
}


@pytest.mark.parametrize("case", STAYS)
def test_slice_stays_below_operators_of_another_meaning(case: str) -> None:
    opset, above, dims, reason = STAYS[case]
    declared = "float[2, 3, 20] a" if above.startswith("Reshape") else "float[2, 3, 4, 5] a"
    proto = parse(f"(float[2, 3, 4, 5] x, float{dims} b) => (y) <{declared}> {{ a = {above} {cut()} }}", opset, 3)
    graph = from_proto(proto)
    done = MoveSlicesUpPass()
    assert not done(graph).modified
    assert any(reason in skipped.reason for skipped in done.skipped), done.skipped
    assert [node.op_type for node in graph.graph] == [proto.graph.node[0].op_type, "Slice"]


@pytest.mark.parametrize("opset", [6, 7])
def test_slice_moves_above_operators_of_one_shape(opset: int) -> None:
    text = f"(float[2, 3, 4] x, float[2, 3, 4] b) => (y) <float[2, 3, 4] a> {{ a = Add(x, b) {cut()} }}"
    graph = from_proto(parse(text, opset, 3))
    assert MoveSlicesUpPass()(graph).modified
    assert [node.op_type for node in graph.graph] == ["Slice", "Slice", "Add"]


@pytest.mark.parametrize("axis", range(4))
def test_slice_moves_above_broadcasts_from_opset_7_on(axis: int) -> None:
    before = parse(f"(float[2, 3, 4, 5] x, float[4, 1] b) => (y) {{ a = Add(x, b) {cut(axis)} }}", 7, 3)
    graph = from_proto(before)
    assert MoveSlicesUpPass()(graph).modified
    x, b = (np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape) for shape in ((2, 3, 4, 5), (4, 1)))
    first, second = [compute(proto, x=x, b=b)[0] for proto in (before, ir.serde.serialize_model(graph))]
    assert np.array_equal(first, second)


def test_a_slice_of_version_10_gives_its_symbol_to_what_it_cut() -> None:
    """onnx 1.23.2 infers so, and onnxruntime 1.31.1, optimisation off, plans memory by it: no pass is at fault.

    It refuses this model, which no pass has seen, at sizes at which it lets one buffer do for two values that differ;
    what passes make of a model that runs may be one that does not, and the other way round. Version 11 is right.
    """
    text = """(float[12, M] x) => (y) <int64[2] s = {0, -4}, int64[2] e = {6, 2147483647}, int64[2] ax = {0, 1},
        int64[1] z = {0}, int64[1] six = {6}> {
        c = Slice(x, s, e, ax) d = Mul(c, c) w = Slice(x, z, six, z) v = Sub(w, w) y = Identity(d) }"""
    x = np.arange(1, 73, dtype=np.float32).reshape(12, 6)
    with pytest.raises(Exception, match="attempting to re-use buffer"):
        compute(parse(text, 10), x=x)
    assert compute(parse(text, 11), x=x)[0].shape == (6, 4)


@pytest.mark.parametrize(("opset", "kinds"), [(1, ["Slice", "Slice"]), (2, ["Split"])])
def test_slices_of_the_first_version_become_no_split(opset: int, kinds: list[str]) -> None:
    """onnxruntime has no implementation of Split-1."""
    nodes = "[y] y = Slice<starts = [0], ends = [3]>(x) [z] z = Slice<starts = [3], ends = [8]>(x)"
    graph = from_proto(parse(f"(float[8] x) => (y, z) {{ {nodes} }}", opset, 3))
    rewrite(graph)
    assert [node.op_type for node in graph.graph] == kinds
    x = np.arange(1, 9, dtype=np.float32)
    parts = compute(ir.serde.serialize_model(graph), x=x)
    assert [part.tolist() for part in parts] == [x[:3].tolist(), x[3:].tolist()]


@pytest.mark.parametrize(("opset", "is_left"), [(10, True), (11, False)])
def test_branches_of_different_sizes_stay_as_onnx_accepts_them(opset: int, is_left: bool) -> None:
    """onnx merges the shapes of both branches below operator set 11, and a constant would make it infer them."""
    model = onnx.parser.parse_model(f"""<ir_version: 6, opset_import: ["" : {opset}]>
        g (float[3, 9] x, bool c) => (int64[n] y) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
            s = Shape(x)
            y = If (c) <
                then_branch = t () => (int64[a] u) {{ u = Slice(s, zero, one) }},
                else_branch = e () => (int64[b] v) {{ v = Slice(s, zero, two) }}> }}""")
    model.graph.initializer.append(numpy_helper.from_array(np.array([2]), "two"))
    before = from_proto(model)
    report = rewrite(before)
    assert any(node.op == "If" for node in report.contested) == is_left
    assert any(report.changes.values()) != is_left

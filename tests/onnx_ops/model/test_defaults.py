"""Initializers that a caller may replace are no constants; from version 4 of the format on these are the inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser
from running import as_arrays
from sessions import open_session

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes import PASSES, rewrite
from onnx_ops.passes.directml.harden import harden_for_directml

TWICE = """g (float[40] x, int64[1] s) => (float[n] y) <int64[1] s = {3}, float[3] w = {7.0, 8.0, 9.0}> {
    e = Constant<value_ints=[30]>()  z = Constant<value_ints=[0]>()
    a = Slice(x, s, e, z)  b = Slice(a, s, e, z)  y = Add(b, b)
}"""
DATA = """g (float[2] x, float[3] w, int64[k] i) => (float[n] y, float[m] u, int64[2] h)
    <int64[1] s = {1}, int64[1] e = {2}, int64[1] z = {0}, float[3] w = {7.0, 8.0, 9.0}, int64[2] i = {0, 1}> {
    a = Slice(w, s, e, z)  y = Add(a, x)  u = Gather(x, i)  t = Shape(w)  f = Shape(i)  h = Concat<axis=0>(t, f)
}"""
SPLIT = """g (float[6] x, int64[2] p) => (float[n] y) <int64[2] p = {2, 4}> { a, b = Split(x, p)  y = Neg(b) }"""
GLU = """g (float[6] x, int64[2] p) => (float[n] y) <int64[2] p = {3, 3}> {
    a, b = Split(x, p)  q = Sigmoid(b)  y = Mul(a, q)
}"""
STRIDED = """g (float[6] x, int64[1] s) => (float[n] y) <int64[1] s = {2}> {
    e = Constant<value_ints=[5]>()  y = ov_ext.StridedSlice(x, s, e)
}"""
REPLACEMENTS = {
    TWICE: {"s": np.array([1])},
    DATA: {"w": np.array([1, 2, 3], np.float32), "i": np.array([1, 0])},
    SPLIT: {"p": np.array([1, 5])},
    GLU: {"p": np.array([3, 3])},
}


def model_of(text: str, ir_version: int = 8) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : 17, "ov_ext" : 1]> {text}')


def run(proto: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[tuple[tuple[int, ...], bytes]]:
    session = open_session(proto)
    size = next(value.shape[0] for value in session.get_inputs() if value.name == "x")
    x = np.arange(1, size + 1, dtype=np.float32)
    return [(array.shape, array.tobytes()) for array in as_arrays(session.run(None, {"x": x, **given}))]


@pytest.mark.parametrize("text", REPLACEMENTS, ids=["slices", "data", "split", "glu"])
@pytest.mark.parametrize("names", [None, tuple(PASSES), *((name,) for name in PASSES), ("harden",)], ids=str)
def test_after_passes_they_may_still_be_replaced(text: str, names: tuple[str, ...] | None) -> None:
    before = model_of(text)
    model = from_proto(before)
    if names == ("harden",):
        harden_for_directml(model)
    else:
        rewrite(model) if names is None else rewrite(model, names)
    after = ir.serde.serialize_model(model)
    kept = [tensor.name for tensor in after.graph.initializer]
    assert kept == [tensor.name for tensor in before.graph.initializer if tensor.name in kept]
    assert run(after, {}) == run(before, {})
    assert run(after, REPLACEMENTS[text]) == run(before, REPLACEMENTS[text])
    assert run(before, REPLACEMENTS[text]) != run(before, {}) or text == GLU


@pytest.mark.parametrize("text", [TWICE, SPLIT, STRIDED])
def test_only_old_versions_of_the_format_are_rewritten(text: str) -> None:
    model = from_proto(model_of(text))
    whole = ir.serde.serialize_model(model)
    assert not any(rewrite(model).changes.values())
    assert ir.serde.serialize_model(model) == whole
    assert any(rewrite(from_proto(model_of(text, 3))).changes.values())


def test_a_gated_split_by_sizes_that_may_be_replaced_is_not_hardened() -> None:
    report = harden_for_directml(from_proto(model_of(GLU)))
    assert [change.replacement for change in report.changes] == [None]
    assert harden_for_directml(from_proto(model_of(GLU, 3))).is_complete


@pytest.mark.parametrize("text", [TWICE, SPLIT, STRIDED])
def test_replaceable_parameters_are_refused_by_lower(text: str) -> None:
    program = sliceport.lower(model_of(text))
    assert {node.reason and node.reason.code for node in program.nodes} <= {"dynamic_parameter", "missing_shape"}
    assert any(node.reason and "is not a constant" in node.reason.message for node in program.nodes)
    assert not sliceport.lower(model_of(text, 3)).summary["refused"]


def test_lowering_of_data_that_may_be_replaced_runs() -> None:
    (node,) = sliceport.lower(model_of(DATA)).nodes
    assert node.verdict == "lowered"


def test_a_model_that_is_given_to_lower_is_as_before() -> None:
    model = from_proto(model_of(TWICE))
    whole = ir.serde.serialize_model(model)
    sliceport.lower(model)
    assert ir.serde.serialize_model(model) == whole


def test_inputs_of_a_loops_body_are_not_constants() -> None:
    """Check that the loop gives its body's inputs, even beside an initializer of the same name."""
    body = parser.parse_graph("""body (int64 n, bool c, float[9] v) => (bool d, float[9] w, float[k] part) {
        d = Identity(c)  w = Neg(v)  e = Constant<value_ints=[3]>()  s = Unsqueeze(n, z)  part = Slice(v, z, e)
        p = Slice(part, s, e)
    }""")
    body.initializer.append(onnx.numpy_helper.from_array(np.array(5), "n"))
    proto = model_of("""g (float[9] x) => (float[9] y, float[a, b] parts) {
        z = Constant<value_ints=[0]>()  m = Constant<value_int=2>()  t = Constant<value_int=1>()  b = Cast<to=9>(t)
        y, parts = Loop(m, b, x)
    }""")
    proto.graph.node[-1].attribute.append(onnx.helper.make_attribute("body", body))
    model = from_proto(proto)
    whole = ir.serde.serialize_model(model)
    assert not any(change.replacement == "Constant" for change in rewrite(model, ("fold",)).changes["fold"])
    assert [t.name for t in ir.serde.serialize_model(model).graph.node[-1].attribute[0].g.initializer] == ["n"]
    assert [node.reason.code for node in sliceport.lower(whole).nodes if node.reason] == ["dynamic_parameter"]

"""Sizes that a Loop's body declares and does not keep become open, and no others; passes do not rely on them."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_models import parse
from sessions import compute

import sliceport
from onnx_ops.infer import control_flow, propagate
from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml

GROW = "b = Concat<axis = 0>(a, x)"
SIZE_OF_DATA = "t = ReduceMax<keepdims = 0>(a) u = Cast<to = 7>(t) e = Mul(u, two)"
X = np.arange(1, 9, dtype=np.float32).reshape(2, 4)


def loop(inputs: str, outputs: str, body: str, initial: str = "x", main_outputs: str = "y") -> onnx.ModelProto:
    """Return a model with a Loop that runs three times, with these carried inputs and outputs of its body."""
    return parse(
        f"""(float[2,4] x) => ({", ".join(f"float[?,?] {name}" for name in main_outputs.split())})
        <int64 n = {{3}}, bool yes = {{1}}, int64[1] zero = {{0}}, int64[1] two = {{2}}> {{
            {", ".join(main_outputs.split())} = Loop(n, yes, {initial}) <body = body (int64 i, bool c, {inputs})
                => (bool d, {outputs}) {{ d = Identity(c)  {body} }}> }}""",
        17,
    )


def loop_of_two(body: str) -> onnx.ModelProto:
    return loop("float[2,4] a, float[2,4] h", "float[m,4] b, float[p,4] g", f"{GROW} {body}", "x, x", "y z")


def declared(model: ir.Model) -> list[list[int | None]]:
    """Return the sizes that the body of the Loop declares for the carried values."""
    (node,) = (node for node in model.graph if node.op_type == "Loop")
    values = node.attributes["body"].as_graph().inputs[2:]
    return [[dim if isinstance(dim, int) else None for dim in value.shape or ()] for value in values]


@pytest.mark.parametrize(
    ("proto", "sizes"),
    [
        pytest.param(loop("float[2,4] a", "float[m,4] b", GROW), [[None, 4]], id="grows"),
        pytest.param(loop("float[2,4] a", "float[2,4] b", GROW), [[None, 4]], id="declared twice"),
        pytest.param(loop("float[0,4] a", "float[m,4] b", "b = Relu(a)"), [[None, 4]], id="other initial size"),
        pytest.param(loop_of_two("g = Neg(h)"), [[None, 4], [2, 4]], id="one of two"),
        pytest.param(loop_of_two("g = Neg(a) u = Abs(h)"), [[None, 4], [None, 4]], id="one after the other"),
    ],
)
def test_size_that_an_iteration_changes_is_opened(proto: onnx.ModelProto, sizes: list[list[int | None]]) -> None:
    assert [finding.op for finding in sliceport.check(proto).findings] == ["Loop"]
    model = from_proto(proto)
    (change,) = harden_for_directml(model).changes
    assert (change.op, change.replacement) == ("Loop", "Loop")
    assert declared(model) == sizes
    after = ir.serde.serialize_model(model)
    onnx.checker.check_model(after, full_check=True)
    for expected, actual in zip(compute(proto, x=X), compute(after, x=X), strict=True):
        assert (actual.shape, actual.tobytes()) == (expected.shape, expected.tobytes())
    assert harden_for_directml(model).changes == ()


@pytest.mark.parametrize(
    "proto",
    [
        pytest.param(loop("float[2,4] a", "float[m,4] b", "b = Neg(a)"), id="kept"),
        pytest.param(loop("float[k,4] a", "float[m,4] b", GROW), id="open"),
        pytest.param(loop("float[2,4] a", "float[2,4] b", "b = local.Own(a)"), id="unknown operator"),
        pytest.param(loop("float[2,4] a", "float[2,4] b", f"{SIZE_OF_DATA} b = Slice(a, zero, e)"), id="by data"),
    ],
)
def test_size_that_no_iteration_changes_stays(proto: onnx.ModelProto) -> None:
    assert not sliceport.check(proto).findings
    assert harden_for_directml(from_proto(proto)).changes == ()


def test_sizes_that_follow_from_a_changing_size_are_opened() -> None:
    """onnx's inference writes them into the body; the provider refuses them there."""
    branch = "r = If(c) <then_branch = t () => (p) { p = Neg(s) }, else_branch = e () => (q) { q = Abs(s) }>"
    body = f"s = Relu(a)  {branch}  b = Concat<axis = 0>(r, x)"
    model = from_proto(onnx.shape_inference.infer_shapes(loop("float[2,4] a", "float[m,4] b", body)))
    assert harden_for_directml(model).changes
    (node,) = (node for node in model.graph if node.op_type == "Loop")
    inside = list(ir.traversal.RecursiveGraphIterator(node.attributes["body"].as_graph()))
    shapes = {output.name: output.shape for inner in inside for output in inner.outputs}
    assert {"s", "p", "q", "r"} < shapes.keys()
    assert not [dim for shape in shapes.values() for dim in shape or () if isinstance(dim, int)]


@pytest.mark.parametrize("output", ["float[m,4] b", "float[2,4] b"])
def test_rewrite_does_not_rely_on_a_changing_size(output: str) -> None:
    body = f"{GROW}  s = Slice(a, zero, two, zero)  g = Neg(s)"
    proto = loop("float[2,4] a, float[q,r] h", f"{output}, float[t,u] g", body, "x, x", "y z")
    result = sliceport.rewrite(proto)
    expected, actual = compute(proto, x=X), compute(result.model, x=X)
    assert [array.tobytes() for array in actual] == [array.tobytes() for array in expected]


def test_body_is_visited_four_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these values changes its size because the one before does."""
    inputs, outputs, names = (
        [pattern.format(i) for i in range(40)] for pattern in ("float[2,4] a{}", "float[m{0},4] b{0}", "y{}")
    )
    body = "b0 = Concat<axis = 0>(a0, x) " + " ".join(f"b{i} = Neg(a{i - 1})" for i in range(1, 40))
    proto = loop(", ".join(inputs), ", ".join(outputs), body, ", ".join(["x"] * 40), " ".join(names))
    keep_sizes = Mock(side_effect=control_flow.keep_sizes)
    monkeypatch.setattr(propagate, "keep_sizes", keep_sizes)
    facts = propagate.propagate(proto.SerializeToString())
    assert keep_sizes.call_count <= 3 * (1 + 4 * 2) * 40  # in each of three propagations: once, and twice in a visit
    assert [each.dims for each in facts].count((2, 4)) == 1  # x

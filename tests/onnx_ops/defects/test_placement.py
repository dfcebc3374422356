"""The nodes that the DirectML provider leaves to the CPU, as the real provider places them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models import parse

import sliceport
from onnx_ops.defects.placement import adapt_to_placement
from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml
from sliceport.defects.engines import ONNXRUNTIME_DML
from sliceport.defects.table import find_defect
from sliceport.device import CallFailed, Device, HostDied
from sliceport.engines.engine import Array

BELOW_THE_AXIS = find_defect("backwards from below the axis")
FROM_THE_LEAST = find_defect("from the least integer to a negative end")

CONSTANTS = (
    "<int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] m1 = {-1}, int64[2] pads = {1, 1}, "
    "int64[2] parts = {1, 2}, int64 c0 = {0}, int64 c1 = {1}, int64 c9 = {9}>"
)
LAST = "y = Slice(t, i0, m1, i0)"
"""The node whose provider is asked for, `y`, on data that other nodes compute."""
GRAPHS = {
    "shape": f"t = Shape(x)  {LAST}",
    "size": "t = Size(x)  y = Unsqueeze(t, i0)",
    "the input itself": "y = Slice(x, i0, m1, i0)",
    "steps": "t = Shape(x)  y = Slice(t, i0, m1, i0, i2)",
    "axes in the input": "t = Shape(x)  y = Slice(t, i0, m1, given)",
    "axes computed": "t = Shape(x)  a = Sub(i0, given)  y = Slice(t, i0, m1, a)",
    "start computed from a shape": "t = Shape(x)  s = Slice(t, i0, i1, i0)  z = Sub(s, s)  y = Slice(t, z, m1, i0)",
    "identity": f"s = Shape(x)  t = Identity(s)  {LAST}",
    "cast to float": f"s = Shape(x)  t = Cast<to = 1>(s)  {LAST}",
    "cast to float16": f"s = Shape(x)  t = Cast<to = 10>(s)  {LAST}",
    "cast to double": f"s = Shape(x)  t = Cast<to = 11>(s)  {LAST}",
    "concat with a constant": f"s = Shape(x)  t = Concat<axis = 0>(s, i2)  {LAST}",
    "concat with an input": f"s = Shape(x)  t = Concat<axis = 0>(s, given)  {LAST}",
    "concat with what is computed from an input": f"s = Shape(x)  k = Neg(given)  t = Concat<axis = 0>(s, k)  {LAST}",
    "product": f"s = Shape(x)  t = Mul(s, i2)  {LAST}",
    "a chain": f"s = Shape(x)  u = Unsqueeze(s, i0)  v = Squeeze(u, i0)  w = Gather(v, i1)  t = Add(w, i2)  {LAST}",
    "reshape by a constant": f"s = Shape(x)  t = Reshape(s, m1)  {LAST}",
    "reshape by a computed shape": f"s = Shape(x)  n = Size(s)  u = Unsqueeze(n, i0)  t = Reshape(s, u)  {LAST}",
    "unsqueeze by a computed axis": "s = Shape(x)  d = Slice(s, i0, i1)  e = Sub(d, d)  u = Unsqueeze(i2, e)  "
    "t = Reshape(u, m1)  y = Slice(t, i0, i1, i0)",
    "squeeze by a computed axis": "s = Shape(x)  d = Slice(s, i0, i1)  e = Sub(d, d)  u = Unsqueeze(s, i0)  "
    f"t = Squeeze(u, e)  {LAST}",
    "fill": f"s = Shape(x)  t = ConstantOfShape(s)  {LAST}",
    "expand": f"s = Shape(x)  t = Expand(i1, s)  {LAST}",
    "range": f"s = Size(x)  t = Range(c0, s, c1)  {LAST}",
    "tile": "s = Shape(x)  t = Tile(s, i2)  y = Slice(t, i0, i1, i0)",
    "tile by a computed count": f"s = Shape(x)  d = Slice(s, i0, i1)  t = Tile(s, d)  {LAST}",
    "top values": "s = Shape(x)  t, u = TopK(s, i2)  y = Slice(t, i0, i1, i0)",
    "top values of a computed count": "s = Shape(x)  d = Slice(s, i0, i1)  t, u = TopK(s, d)  y = Slice(t, i0, i1, i0)",
    "pad": f"s = Shape(x)  t = Pad(s, pads)  {LAST}",
    "clip": f"s = Shape(x)  t = Clip(s, c0, c9)  {LAST}",
    "cumulative sum": f"s = Shape(x)  t = CumSum(s, c0)  {LAST}",
    "where": f"s = Shape(x)  e = Equal(s, i2)  t = Where(e, i1, s)  {LAST}",
    "product of all": "s = Shape(x)  t = ReduceProd<keepdims = 1>(s)  y = Slice(t, i0, i1, i0)",
    "split": "t = Shape(x)  y, z = Split<axis = 0>(t, parts)",
    "reshape": "t = Shape(x)  y = Reshape<allowzero = 1>(t, m1)",
    "positions": "s = Shape(x)  t = NonZero(s)  y = Slice(t, i0, i1, i0)",
    "gather from an input": "s = Shape(x)  d = Sub(s, s)  t = Gather(given, d)  y = Slice(t, i0, m1, i0)",
    "large constant": f"s = Shape(x)  t = Concat<axis = 0>(s, large)  {LAST}",
    "largest small constant": f"s = Shape(x)  t = Concat<axis = 0>(s, small)  {LAST}",
}


def build(nodes: str) -> onnx.ModelProto:
    model = parse(f"(float[n, 3, 4] x, int64[1] given) => (int64[m] y) {CONSTANTS} {{ {nodes} }}", 18)
    for name, count in (("small", 100), ("large", 101)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(count), name))
    for node in model.graph.node:
        node.name = node.output[0]
    model.graph.output[0].ClearField("type")
    return onnx.shape_inference.infer_shapes(model)


def drops_defect(model: onnx.ModelProto) -> bool:
    (node,) = [each for each in from_proto(model).graph if each.name == "y"]
    return adapt_to_placement(node, FROM_THE_LEAST, lambda value: value.dtype, lambda _: None) is None


@pytest.mark.parametrize("name", GRAPHS)
def test_node_is_left_to_the_cpu_exactly_where_the_provider_leaves_it(directml: Device, name: str) -> None:
    model = build(GRAPHS[name])
    data: dict[str, Array] = {"x": np.ones((2, 3, 4), np.float32), "given": np.zeros(1, np.int64)}
    _, nodes = directml.trace_onnx(model.SerializeToString(), data, ["y"])
    (provider,) = [node.provider for node in nodes if node.name == "y"]
    assert drops_defect(model) == (provider == "CPUExecutionProvider")


def test_node_without_an_optional_input_stays_on_the_provider() -> None:
    """The provider then refuses the model, so that nothing tells where it places the node."""
    model = build("t = Shape(x)  y = Slice(t, i0, m1, , i1)")
    assert not drops_defect(model)
    assert [one.defect.id for one in sliceport.check(model).findings] == ["steps without axes"]


BODIES = {
    "a shape in the body": ("{ t = Shape(x)  w = Slice(t, least, m1, i0) }", "CPUExecutionProvider"),
    "a shape outside": ("{ w = Slice(s, least, m1, i0) }", ""),
}


@pytest.mark.parametrize("name", BODIES)
def test_shape_of_an_outer_graph_keeps_a_node_on_the_provider(directml: Device, name: str) -> None:
    body, provider = BODIES[name]
    other = "else_branch = e () => (int64[k] v) { v = Identity(s) }"
    model = parse(
        "(float[n, 3, 4] x, bool c) => (int64[m] y) "
        "<int64[1] i0 = {0}, int64[1] m1 = {-1}, int64[1] least = {-9223372036854775808}> "
        f"{{ s = Shape(x)  y = If(c) <then_branch = t () => (int64[k] w) {body}, {other}> }}"
    )
    found = [one.defect.id for one in sliceport.check(model).findings]
    changes = harden_for_directml(from_proto(model)).changes
    assert found == [defect.id for change in changes for defect in change.defects]
    assert found == ([] if provider else ["from the least integer to a negative end"])
    data = {"x": np.ones((2, 3, 4), np.float32), "c": np.array(True)}
    if not provider:
        with pytest.raises(CallFailed, match="Invalid parameter"):
            directml.trace_onnx(model.SerializeToString(), data, ["y"])
        return
    (y,), nodes = directml.trace_onnx(model.SerializeToString(), data, ["y"])
    assert y.tolist() == [2, 3]
    assert [node.provider for node in nodes if node.op_type == "Slice"] == [provider]


def test_defect_of_another_engine_stays_without_the_provider() -> None:
    model = parse(
        "(float[n, 3, 4] x) => (int64[m] y) "
        "<int64[1] s = {-9}, int64[1] e = {-20}, int64[1] a = {0}, int64[1] t = {-1}> "
        "{ d = Shape(x)  y = Slice(d, s, e, a, t) }"
    )
    assert BELOW_THE_AXIS.engines == (ONNXRUNTIME_DML, "onnx-reference")
    assert not sliceport.check(model, engines=[ONNXRUNTIME_DML]).findings
    (finding,) = sliceport.check(model, engines=["onnx-reference"]).findings
    assert finding.defect.engines == ("onnx-reference",)
    changes = harden_for_directml(from_proto(model)).changes
    assert [defect.engines for change in changes for defect in change.defects] == [("onnx-reference",)]


def test_long_chain_of_nodes_is_followed() -> None:
    nodes = "  ".join(f"v{i + 1} = Identity(v{i})" for i in range(3000))
    model = parse(
        "(float[n] x) => (int64[m] y) <int64[1] s = {-9223372036854775808}, int64[1] e = {-1}, int64[1] a = {0}> "
        f"{{ v0 = Shape(x)  {nodes}  y = Slice(v3000, s, e, a) }}"
    )
    assert not sliceport.check(model, engines=[ONNXRUNTIME_DML]).findings


@pytest.mark.parametrize("sizes", [("2, 3, 4", "5, 3, 4"), ("n, 3, 4", "5, 3, 4")])
def test_einsum_that_the_provider_fuses_is_fragile(directml: Device, sizes: tuple[str, str]) -> None:
    first, second = sizes
    model = parse(
        f'(float[{first}] x, float[{second}] z) => (float[a, b] y) {{ y = Einsum<equation = "abc,dbc->ad">(x, z) }}'
    )
    data = {"x": np.ones((2, 3, 4), np.float32), "z": np.arange(60, dtype=np.float32).reshape(5, 3, 4)}
    is_fused = "n" not in first
    with directml.without_retries():
        if is_fused:
            (y,) = directml.run_onnx(model.SerializeToString(), data, ["y"])
            np.testing.assert_allclose(y, np.einsum("abc,dbc->ad", *data.values()))
        else:
            with pytest.raises(HostDied):
                directml.run_onnx(model.SerializeToString(), data, ["y"])
    (finding,) = sliceport.check(model, engines=[ONNXRUNTIME_DML]).findings
    (change,) = harden_for_directml(from_proto(model)).changes
    assert (finding.kind, change.is_fragile) == (("fragile", True) if is_fused else ("defect", False))
    assert change.replacement == "MatMul"

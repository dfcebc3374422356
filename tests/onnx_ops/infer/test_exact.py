"""Constants that `evaluate` computes have the bits that engines compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from sessions import compute

from onnx_ops.infer import exact
from onnx_ops.infer.exact import evaluate, is_range_length_certain
from onnx_ops.model.io import from_proto
from onnx_ops.passes import rewrite
from sliceport.errors import ModelError


def bits(array: Any) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.tolist() if array.dtype == object else array.tobytes()


NAN = np.array([0x7F800001, 0xFFC00002, 0x3F800000], np.uint32).view(np.float32)
OTHER_NAN = np.array([0x7FC00003, 0x7FC00004, 0x7FC00005], np.uint32).view(np.float32)
ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("node", "given", "opset"),
    [
        (helper.make_node("Add", "ab", "y", axis=0, broadcast=1), [np.ones((3, 3), np.float32), ONES], 6),
        (helper.make_node("Div", "ab", "y"), [np.array([7]), np.array([0])], 17),
        (helper.make_node("Mod", "ab", "y"), [np.array([-(2**63)]), np.array([-1])], 17),
        (helper.make_node("Add", "ab", "y"), [NAN, OTHER_NAN], 17),
        (helper.make_node("Cast", "a", "y", to=onnx.TensorProto.DOUBLE), [NAN], 17),
        (helper.make_node("Cast", "a", "y", to=onnx.TensorProto.INT64), [np.array([3e9], np.float32)], 17),
        (helper.make_node("Cast", "a", "y", to=onnx.TensorProto.INT8), [np.array([300.0], np.float32)], 17),
        (helper.make_node("Cast", "a", "y", to=onnx.TensorProto.UINT32), [np.array([-3.0], np.float32)], 17),
        (helper.make_node("Cast", "a", "y", to=onnx.TensorProto.FLOAT), [np.array([1e300])], 17),
        (helper.make_node("Cast", "a", "y", to=onnx.TensorProto.FLOAT16), [ONES], 17),
        (helper.make_node("Cast", "a", "y", to=onnx.TensorProto.BOOL), [NAN], 17),
        (helper.make_node("Max", "ab", "y"), [np.array([0.0]), np.array([-0.0])], 17),
        (helper.make_node("Where", "cab", "y"), [np.array([True]), np.array([-0.0]), np.array([1.0])], 17),
        (helper.make_node("Min", "ab", "y"), [np.array([2**31 + 1] * 4), np.array([5] * 4)], 17),
        (helper.make_node("ReduceSum", "a", "y"), [np.array([2**62] * 5)], 17),
        (helper.make_node("ReduceProd", "a", "y"), [np.array([2**16, 2**16, 0], np.int32)], 17),
        (helper.make_node("ReduceMax", "a", "y", axes=[0]), [np.zeros((0, 2), np.int64)], 17),
        (helper.make_node("NonZero", "a", "y"), [np.array(3)], 17),
        (helper.make_node("BitShift", "ab", "y", direction="LEFT"), [np.array([1], "u8"), np.array([64], "u8")], 17),
        (helper.make_node("Div", "ab", "y"), [], 17),
        (helper.make_node("Range", "abc", "y"), [np.float32(0.1), np.float32(0.8), np.float32(0.7)], 17),
        (helper.make_node("Unique", "a", "y", axis=1, sorted=0), [np.array([[0], [1], [0]])], 17),
        (helper.make_node("Hardmax", "a", "y", axis=0), [np.eye(3, dtype=np.float32)], 11),
        (helper.make_node("Exp", "a", "y"), [ONES], 17),
        (helper.make_node("Mul", "ab", "y"), [np.ones(3, np.float16), np.ones(3, np.float16)], 17),
        (helper.make_node("Bernoulli", "a", "y"), [ONES / 2], 17),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_operators_that_engines_compute_differently_are_left_alone(
    node: onnx.NodeProto, given: list[Any], opset: int
) -> None:
    assert evaluate(node, [np.asarray(array) for array in given], opset) == ()


@pytest.mark.parametrize(
    ("bounds", "is_certain"),
    [
        ((0, 16, 1), True),
        ((0.0, 16.0, 1.0), True),
        ((0.5, 16.0, 1.0), True),
        ((0.1, 0.8, 0.7), False),
        ((0.0, 1.0, 0.1), False),
        ((0.0, 1.0, 0.125), True),
        ((-0.75, 2.0**-20, 0.25), True),
        ((0.0, 2.0**-130, 2.0**-133), False),
        ((0.0, 1e-42, 3e-43), False),  # engines that take floats below 2**-126 for 0 divide by 0
        ((1e-38, 1.5e-38, 1.2e-38), False),
        ((0.0, 1e-36, 3e-37), True),
        ((0.0, 1.0, 0.0), False),
        ((0.0, np.inf, 1.0), False),
        ((-1.0, 2.0**25, 2.0**25), False),  # in 32 bits, this range and the next have one element less
        ((-2.0, 2.0**24 - 1, 1.0), False),  # 32-bit floats round the difference of the bounds
        ((0.0, 70000.0, 0.7), False),
        ((2**53, 2**53 + 2, 1), True),
        ((5.0, 0.0, -1.0), True),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_range_of_certain_length_has_that_length(bounds: tuple[float, ...], is_certain: bool, dtype: Any) -> None:
    given = [np.array(number) if isinstance(number, int) else np.array(number, dtype) for number in bounds]
    assert is_range_length_certain(given) == is_certain
    if is_certain:
        proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
            g (float a, float b, float c) => (float[n] y) { y = Range(a, b, c) }""")
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(given[0].dtype)
        (elements,) = compute(proto, **dict(zip("abc", given, strict=True)))
        assert len(elements) == max(0, int(np.ceil((bounds[1] - bounds[0]) / bounds[2])))


@pytest.mark.parametrize(
    "bounds",
    [(-1.5e308, 1.5e308, 1e308), (0.0, 1e39, 3e38), (1.0, 1.0000001, 3.3e-8), (2.0**24 + 1, 2.0**24 + 3.5, 1.0)],
)
def test_range_of_doubles_that_floats_do_not_store_has_no_certain_length(bounds: tuple[float, ...]) -> None:
    assert not is_range_length_certain([np.array(bound) for bound in bounds])


def test_moved_elements_keep_their_bits() -> None:
    (wide,) = evaluate(helper.make_node("Expand", "xs", "y"), [NAN, np.array([2, 1])], 17)
    assert wide.view(np.uint32).tolist() == [NAN.view(np.uint32).tolist()] * 2
    for rows in (3, 70):
        data, indices = np.arange(rows * 2).reshape(rows, 2), np.zeros((rows, 1), np.int64)
        indices[1] = -1
        node = helper.make_node("GatherElements", "xi", "y", axis=0)
        (picked,) = evaluate(node, [data, indices], 17)
        assert picked.tolist() == [[0], [2 * rows - 2]] + [[0]] * (rows - 2)


FOLLOWING = {
    "a float range": """a = Constant<value_float = 0.1>() b = Constant<value_float = 0.8>()
        c = Constant<value_float = 0.7>() r = Range(a, b, c) n = Shape(r)""",
    "floats of a range": """a = Constant<value_float = 0.0>() b = Constant<value_float = 3.0>()
        c = Constant<value_float = 0.1>() d = Constant<value_float = 10.0>()
        r = Range(a, b, c) m = Mul(r, d) i = Cast<to = 7>(m) g = Constant<value_int = 24>()
        v = Gather(i, g) q = Unsqueeze(v, zero) n = Identity(q)""",
    "an exponential": """a = Constant<value_floats = [1.0, 2.0]>() t = Constant<value_floats = [2.7182820, 9.0]>()
        e = Exp(a) b = GreaterOrEqual(e, t) w = NonZero(b) s = Shape(w) n = Slice(s, one, two)""",
    "elements": """k = Constant<value_int = 70>() o = Constant<value_int = 0>() p = Constant<value_int = 1>()
        r = Range(o, k, p) d = Unsqueeze(r, one) h = Shape(d) f = Expand(o, h)
        e = GatherElements<axis = 0>(d, f) m = ReduceSum<keepdims = 1>(e) v = Squeeze(m) n = Unsqueeze(v, zero)""",
}


def assert_rewrite_keeps_results(proto: onnx.ModelProto, x: np.ndarray) -> None:
    model = from_proto(proto)
    rewrite(model)
    expected, got = compute(proto, x=x), compute(ir.serde.serialize_model(model), x=x)
    assert list(map(bits, got)) == list(map(bits, expected))


@pytest.mark.parametrize("case", FOLLOWING)
def test_rewrite_keeps_results_that_follow_from_constants(case: str) -> None:
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[80] x) => (float[p] y, int64[1] n)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}>
        {{ {FOLLOWING[case]} y = Slice(x, n, two) }}""")
    proto.graph.initializer.append(numpy_helper.from_array(np.array([80]), "end"))
    proto.graph.node[-1].input[2] = "end"
    assert_rewrite_keeps_results(proto, np.arange(80, dtype=np.float32))


OLD = {
    "Unsqueeze": "u = Unsqueeze<axes = [0, -1]>(x) s = Shape(u) y = Slice(s, zero, four)",
    "parts of an Unsqueeze": """u = Unsqueeze<axes = [0, -1]>(x) y = Slice(u, zero, two, one)
        z = Slice(u, two, four, one)""",
    "Squeeze": """a = Unsqueeze<axes = [2]>(x) b = Squeeze<axes = [-1]>(a) c = Unsqueeze<axes = [0]>(b)
        u = Squeeze<axes = [-3]>(c) s = Shape(u) y = Slice(s, zero, four)""",
    "ReduceSum": "u = ReduceSum<axes = [-1], keepdims = 0>(x) s = Shape(u) y = Slice(s, zero, one)",
    "scalar": """r = ReduceSum<keepdims = 0>(x) u = NonZero(r) s = Shape(u) y = Slice(s, zero, one)""",
    "ReduceMax of nothing": """e = Slice(x, zero, zero, one) u = ReduceMax<axes = [1]>(e) s = Shape(u)
        y = Slice(s, zero, four)""",
    "ArgMin of nothing": """e = Slice(x, zero, zero, zero) u = ArgMin<axis = 1, keepdims = 1>(e) s = Shape(u)
        y = Slice(s, zero, four)""",
}


@pytest.mark.parametrize("case", OLD)
def test_rewrite_keeps_results_below_opset_11(case: str) -> None:
    proto = onnx.parser.parse_model(f"""<ir_version: 5, opset_import: ["" : 10]>
        g (float[2, 4] x) => (y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] four = {{4}}>
        {{ {OLD[case]} }}""")
    if "z =" in OLD[case]:
        proto.graph.output.add(name="z")
    assert_rewrite_keeps_results(proto, np.arange(8, dtype=np.float32).reshape(2, 4))


def test_casts_that_engines_do_differently_are_left_alone() -> None:
    """Compare infinity with integers beyond the range of a half."""
    half = np.array([np.inf, -np.inf], np.float16)
    end = np.array([2**31], np.float32)
    for array, dtype in ((half, np.int64), (half, np.int32), (end, np.int32), (end, np.int64), (-end * 2, np.int64)):
        assert not exact.casts_alike(array, np.dtype(dtype))
    assert exact.casts_alike(-end, np.dtype(np.int32))


def test_rewrite_takes_outputs_that_are_left_out() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[n] y)
        <int64[3] c = {1, 1, 2}, int64[1] a = {0}> { q, , v = Unique(c) s = Slice(v, a, q) y = Slice(x, a, v, a) }""")
    try:
        rewrite(from_proto(proto))
    except ModelError as error:  # which says what is wrong with it
        pytest.fail(str(error))

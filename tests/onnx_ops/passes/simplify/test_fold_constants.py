"""Folding of nodes that follow from constants alone, and its limits."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper
from platforms import require_reshape_of_no_elements
from sessions import open_session

from onnx_ops.model.io import from_proto
from onnx_ops.passes import rewrite, simplify
from onnx_ops.passes.simplify import fold_constants
from onnx_ops.passes.simplify.fold_constants import FoldConstantsPass

CONSTANTS = """<float[2] c = {2.5, 3.0}, float[1] end = {2147483648.0}, float[2] some = {1.0, 3000000000.0},
    float[2] wide = {3.0, 300.0}, int64[2] i = {7, 8}, int64[1] one = {1}, bool[2] k = {1, 0}, string[1] t = {"2"},
    float16[1] h = {16}, int64 zero = {0}, bool no = {0},
    int64[1] least = {-9223372036854775808}, int64[1] minus = {-1}>"""


def parse(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[2] x) => {body.replace("{", f"{CONSTANTS} {{", 1)}""")


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph if node.op_type != "Constant"]


def folded(proto: onnx.ModelProto) -> list[str]:
    """Return the operators after one run of the pass."""
    model = from_proto(proto)
    fold = FoldConstantsPass()
    is_changed = fold(model).modified
    assert is_changed == bool(fold.changes)
    return operators(model)


EXACT = [
    "(float[n] y) { a = Add(c, c) b = Mul(a, c) y = Add(x, b) }",
    "(float[n] y) { a = Gather(c, one) y = Add(x, a) }",
    "(float[n] y) { a = Cast<to = 6>(c) b = Cast<to = 1>(a) y = Add(x, b) }",
    "(float[n] y) { a = Cast<to = 1>(k) y = Add(x, a) }",
    "(float[n] y) { a, b = Split(c) y = Add(x, a) }",
]
NOT_EXACT = {
    "not a number": ("(float[n] y) { a = Sub(c, c) b = Div(a, a) y = Add(x, b) }", ["Div", "Add"]),
    "2 ** 31": ("(int32[n] y) { y = Cast<to = 6>(end) }", ["Cast"]),
    "one of several": ("(int32[n] y) { y = Cast<to = 6>(some) }", ["Cast"]),
    "cast of a string": ("(float[n] y) { a = Cast<to = 1>(t) y = Add(x, a) }", ["Cast", "Add"]),
    "8 bits": ("(int8[n] y) { y = Cast<to = 3>(wide) }", ["Cast"]),
    "half": ("(float16[n] y) { y = Add(h, h) }", ["Add"]),
    "other domain": ("(float[2] y) { y = com.microsoft.Gelu(c) }", ["Gelu"]),
    "open size": ("(float[n] y) { y = Unique(c) }", ["Unique"]),
    "random": ("(float[n] y) { y = Bernoulli(c) }", ["Bernoulli"]),
    "string": ("(string[n] y) { y = Identity(t) }", ["Identity"]),
    "body": (
        """(float[n] y) {
        y = If(no) <then_branch = p() => (float[2] q) { q = RandomNormal<shape = [2]>() },
            else_branch = r() => (float[2] s) { s = RandomUniform<shape = [2]>() }> }""",
        ["If"],
    ),
    "division by 0": ("(int64[n] y) { y = Div(i, zero) }", ["Div"]),
    "too large a quotient": ("(int64[n] y) { y = Div(least, minus) }", ["Div"]),
}


@pytest.mark.parametrize("body", EXACT)
def test_what_engines_compute_alike_is_folded_in_one_run(body: str) -> None:
    proto = parse(body)
    assert folded(proto) == ["Add"]


@pytest.mark.parametrize("case", NOT_EXACT)
def test_nodes_that_engines_compute_differently_are_not_folded(case: str) -> None:
    body, left = NOT_EXACT[case]
    assert folded(parse(body))[-len(left) :] == left


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("(double[n] y) { y = Cast<to = 11>(nan) }", "Cast"),
        ("(float[n] y) { y = Cast<to = 1>(huge) }", "Cast"),
        ("(float[n] y) { y = Where(k, nan, c) }", "Where"),
    ],
)
def test_numbers_that_are_none_and_that_become_none(body: str, kept: str) -> None:
    proto = parse(body)
    for name, array in (("nan", np.array([np.nan, 1], np.float32)), ("huge", np.array([1e300, 1]))):
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    assert folded(proto) == [kept]


@pytest.mark.parametrize(
    "cast", ["Cast<to = 6>(end)", "Cast<to = 3>(wide)", "Cast<to = 7>(large)", "Cast<to = 7>(far)"]
)
def test_beside_a_cast_that_stays(cast: str) -> None:
    """Were it thought to be folded, only what follows from both would be replaced, which has no value."""
    proto = parse(f"""(float[n] y) {{ a = Add(c, c) m = {cast} r = Cast<to = 1>(m) s = Gather(r, zero) b = Mul(a, s)
        y = Add(x, b) }}""")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2049, np.float32), "large"))
    far = proto.graph.initializer.add(name="far", data_type=1, dims=[2], data_location=1)
    far.external_data.add(key="location", value="weights.bin")
    assert folded(proto) == ["Cast", "Cast", "Gather", "Mul", "Add"]


def test_bytes_that_are_read_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_constants, "MAX_READ_BYTES", 7)
    assert folded(parse("(float[n] y) { a = Neg(c) y = Add(x, a) }")) == ["Neg", "Add"]


def test_nodes_in_a_branch_are_folded() -> None:
    model = from_proto(
        parse("""(float[n] y) {
        y = If(no) <then_branch = p() => (float[2] q) { a = Add(c, c) q = Mul(a, x) },
            else_branch = r() => (float[2] s) { s = Neg(x) }> }""")
    )
    assert FoldConstantsPass()(model).modified
    assert [node.op_type for node in model.graph.all_nodes()] == ["If", "Constant", "Mul", "Neg"]


def test_a_list_of_indices_that_many_share_does_not_multiply_small_constants() -> None:
    """Each Gather alone would become a constant of up to 1 MiB."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[n] y, float[m] z)
        <float[64] small = {}, float[4096] large = {}, int64[65536] indices = {}> {
        a = Gather(small, indices) y = Add(x, a) b = Gather(large, indices) z = Add(x, b) }""")
    sizes = {"small": (64, np.float32), "large": (4096, np.float32), "indices": (65536, np.int64)}
    for tensor in proto.graph.initializer:
        count, dtype = sizes[tensor.name]
        tensor.CopyFrom(numpy_helper.from_array(np.arange(count).astype(dtype) % 64, tensor.name))
    model = from_proto(proto)
    rewrite(model)
    assert [node.op_type for node in model.graph if node.op_type != "Constant"] == ["Gather", "Add", "Add"]


@pytest.mark.parametrize(
    "shape",
    [
        "s = Shape(x) b = Gather(s, first) t = Concat<axis = 0>(b, minus)",
        "t = Slice(row, first, two)",
        "c = Concat<axis = 0>(first, minus) t = Identity(c)",
        "t = Gather<axis = 0>(row, ends)",
    ],
)
@pytest.mark.parametrize("simplifies", [False, True])
def test_shape_that_reshape_forbids_does_not_become_constant(shape: str, simplifies: bool) -> None:
    require_reshape_of_no_elements()
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[0, 4] x) => (float[a, b] y)
        <int64[1] first = {{0}}, int64[1] minus = {{-1}}, int64[1] two = {{2}}, int64[3] row = {{0, -1, 7}},
        int64[2] ends = {{0, 1}}>
        {{ {shape} y = Reshape<allowzero = 1>(x, t) }}""")
    model = from_proto(proto)
    if simplifies:
        model, _ = simplify(model)
    else:
        rewrite(model)
    (y,) = open_session(ir.serde.serialize_model(model), optimized=False).run(None, {"x": np.zeros((0, 4), np.float32)})
    assert isinstance(y, np.ndarray)
    assert y.shape == (0, 4)

"""Additions of 0 and products by 1 are removed only if no output changes by a bit, zeros with a sign included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper
from onnx_models import read_model
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException
from sessions import compute

from onnx_ops.model.io import from_proto
from onnx_ops.passes.simplify.neutral_operands import _ARITHMETIC, _HIDING, RemoveNeutralOperandsPass

X = np.array([[0.0, -0.0, 1.5], [-0.0, 2.0, -3.0]], np.float32)
CONSTANTS = """<float[3] zeros = {0.0, 0.0, 0.0}, float[3] negative = {-0.0, -0.0, -0.0}, float one = {1.0},
    float[3] bias = {1.0, 0.0, -2.0}, float[2, 3] tall = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0}, float[1, 1, 1] deep = {1.0},
    float[1, 3] wide = {1.0, 1.0, 1.0}, float[2, 1, 1] kernel = {1.0, -1.0}, float[2] shift = {0.0, 3.0},
    float[2] unshift = {0.0, -0.0}, int64[1] axis = {0}>"""
CONVOLUTION = "a = Add(m, zeros) d = Unsqueeze(a, axis) c = Conv<group = 2>(d, kernel) y = Squeeze(c, axis)"


def parse(body: str, head: str = "float[2, 3] x") -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]> g ({head}) => (float[a, b] y)
        {CONSTANTS} {{ m = Tanh(x) {body} }}""")


def count_removed(proto: onnx.ModelProto) -> int:
    """Run the pass, and compare the bits of what the model computes before and after."""
    model = from_proto(proto)
    before = len(model.graph)
    RemoveNeutralOperandsPass()(model)
    values = {value.name: X[:1] if len(value.type.tensor_type.shape.dim) == 1 else X for value in proto.graph.input}
    values = {name: array[:, :1] if name == "column" else array for name, array in values.items()}
    (expected,), (got,) = compute(proto, **values), compute(ir.serde.serialize_model(model), **values)
    assert (expected.shape, expected.tobytes()) == (got.shape, got.tobytes())
    return before - len(model.graph)


REMOVED = {
    "before a softmax": "a = Add(m, zeros) y = Softmax(a)",
    "before a bias": "a = Add(zeros, m) b = Transpose(a) t = Transpose(b) y = Add(t, bias)",
    "before a square and an epsilon": "a = Add(m, zeros) p = Mul(a, a) y = Add(p, one)",
    "before a power and an epsilon": "a = Add(m, zeros) p = Pow(a, one) y = Add(p, one)",
    "before a normalization with a bias": "a = Add(m, zeros) y = LayerNormalization(a, bias, bias)",
    "before a convolution with a bias": CONVOLUTION.replace("kernel", "kernel, shift"),
    "before a deconvolution with a bias": CONVOLUTION.replace(
        "Conv<group = 2>(d, kernel", "ConvTranspose<group = 2>(d, kernel, shift"
    ),
    "negative zeros": "a = Add(m, negative) y = Sqrt(a)",
    "subtraction of zeros": "a = Sub(m, zeros) y = Reciprocal(a)",
    "product": "a = Mul(one, m) y = Reciprocal(a)",
    "quotient": "t = Transpose(m) a = Div(t, one) y = Reciprocal(a)",
    "product with ones of its shape": "a = Mul(m, tall) y = Relu(a)",
}
KEPT = {
    "output shows the sign": "a = Add(m, zeros) y = Relu(a)",
    "a reciprocal shows the sign": "a = Add(m, zeros) r = Reciprocal(a) y = Softmax(r)",
    "a quotient shows the sign": "a = Add(m, zeros) r = Div(one, a) y = Add(r, bias)",
    "a bias of negative zeros keeps the sign": "a = Add(m, zeros) y = Add(a, negative)",
    "a subtraction of negative zeros is an addition": "a = Sub(m, negative) y = Relu(a)",
    "a negative power shows the sign": "n = Neg(one) a = Add(m, zeros) p = Pow(a, n) y = Add(p, one)",
    "a normalization without bias keeps the sign": "a = Add(m, zeros) y = LayerNormalization(a, bias)",
    "a bias of negative zeros in a normalization": "a = Add(m, zeros) y = LayerNormalization(a, bias, negative)",
    "a convolution without bias keeps the sign": CONVOLUTION,
    "a bias with a negative zero in a convolution": CONVOLUTION.replace("kernel", "kernel, unshift"),
    "one of two parts shows the sign": """a = Add(m, zeros) p, q = Split<axis = 1, num_outputs = 2>(a)
        s = Softmax(q) y = Concat<axis = 1>(p, s)""",
    "a subtraction from zeros": "a = Sub(zeros, m) y = Softmax(a)",
    "what may be a signalling NaN": "i = Identity(x) a = Mul(i, one) y = Relu(a)",
    "output that shows the sign": "y = Add(m, zeros)",
    "a rank that grows": "a = Mul(m, deep) i = ReduceMax<keepdims = 0>(a, axis) y = Relu(i)",
}


def test_output_becomes_a_copy() -> None:
    model = from_proto(parse("y = Mul(m, one)"))
    assert RemoveNeutralOperandsPass()(model).modified
    assert [node.op_type for node in model.graph] == ["Tanh", "Identity"]


@pytest.mark.parametrize("case", REMOVED)
def test_neutral_operand_is_removed(case: str) -> None:
    assert count_removed(parse(REMOVED[case])) == 1


@pytest.mark.parametrize("case", KEPT)
def test_operand_that_shows_stays(case: str) -> None:
    assert count_removed(parse(KEPT[case])) == 0


def test_operand_that_broadcasts_stays() -> None:
    column = parse("n = Tanh(column) a = Mul(n, tall) y = Add(a, m)", "float[2, 3] x, float[2, 1] column")
    assert count_removed(column) == 0
    assert count_removed(parse("a = Mul(m, tall) y = Relu(a)", "float[2, n] x")) == 0
    assert count_removed(parse("a = Mul(m, tall) y = Relu(a)", "float[n, 3] x")) == 0
    assert count_removed(parse("a = Mul(m, one) y = Relu(a)", "float[2, n] x")) == 1
    assert count_removed(parse("a = Mul(m, wide) y = Relu(a)", "float[n, 3] x")) == 1


def test_operand_in_a_data_file_is_read(tmp_path: Path) -> None:
    proto = parse(REMOVED["before a softmax"])
    for tensor in proto.graph.initializer:  # onnx moves raw data alone
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    model = read_model(tmp_path / "m.onnx")
    assert RemoveNeutralOperandsPass()(model).modified
    (tmp_path / "m.data").unlink()
    assert not RemoveNeutralOperandsPass()(read_model(tmp_path / "m.onnx")).modified


def test_value_that_a_branch_returns_keeps_its_sign() -> None:
    branches = """then_branch = t () => (float[2, 3] u) { u = Identity(a) },
        else_branch = e () => (float[2, 3] v) { v = Neg(a) }"""
    body = f"yes = Constant<value = bool {{1}}>() a = Add(m, zeros) r = If<{branches}>(yes) y = Softmax(r)"
    assert count_removed(parse(body)) == 0


CALLS = dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "Equal", "Less", "Greater"), "x, other") | {
    "LayerNormalization": "x, bias", "RMSNormalization": "x, bias", "BatchNormalization": "d, w, w, w, w",
    "InstanceNormalization": "d, w, w", "GroupNormalization": "d, w, w", "Conv": "d, kernel",
    "ConvTranspose": "d, kernel", "AveragePool": "d", "GlobalAveragePool": "d", "MatMul": "x, t", "Gemm": "x, t",
    "Clip": "x, n, one", "Div": "x, tall", "Einsum": "x, tall",
}  # fmt: skip
"""The inputs of the operators that have more than `x`."""
ATTRIBUTES = {
    "AveragePool": "<kernel_shape = [2]>",
    "Einsum": '<equation = "ij,kj->ik">',
    "GroupNormalization": "<num_groups = 1>",
}
OPSETS = {"RMSNormalization": 23, "GroupNormalization": 21}
COMPARISONS = ("Equal", "Less", "Greater")


def call(op: str, inputs: str, attributes: str, more: str = "", dtype: str = "float") -> onnx.ModelProto:
    text = f"""<ir_version: 9, opset_import: ["" : {OPSETS.get(op, 20)}]>
        g (float[2, 3] x, float[2, 3] other) => ({"bool" if op in COMPARISONS else "float"} y)
        <float[3] bias = {{1.0, -0.0, -2.0}}, float one = {{1.0}}, float n = {{-1.0}}, float[2] w = {{0.5, 1.0}},
        float[2, 3] tall = {{1.0, 1.0, 2.0, 1.0, 1.0, 1.0}},
        float[2, 2, 2] kernel = {{1.0, 0.0, -1.0, 2.0, 1.0, -0.0, 3.0, 1.0}}>
        {{ t = Transpose(tall) axis = Constant<value_ints = [0]>() d = Unsqueeze(x, axis)
           y = {op}{attributes}({inputs}) {more} }}"""
    return onnx.parser.parse_model(text.replace("float", dtype))


@pytest.mark.parametrize("op", sorted((_ARITHMETIC | _HIDING) - {"Shape", "Size"}))
def test_sign_of_a_zero_changes_at_most_the_sign_of_a_zero(op: str) -> None:
    model = call(op, CALLS.get(op, "x"), ATTRIBUTES.get(op, ""))
    other = np.array([[-0.0, 0.0, -0.0], [0.0, -1.0, -2.0]], np.float32)
    for x in (X, np.zeros_like(X), -np.zeros_like(X), np.abs(X)):
        one, two = [compute(model, x=values, other=other)[0] for values in (x, np.where(x == 0, -x, x))]
        assert np.array_equal(one, two, equal_nan=True)
        if op in _HIDING:
            assert one.tobytes() == two.tobytes()


SIGNALLING = {
    "float": np.array([[0x7F800001, 0x3F800000, 1], [0x3F800000, 0xFF800123, 2]], np.uint32).view(np.float32),
    "double": np.array([[0x7FF << 52 | 1, 0x3FF << 52, 1], [0x3FF << 52, 0xFFF << 52 | 9, 2]], np.uint64).view(float),
}
COPIES = [
    *[(op, "x", "") for op in ("Max", "Min", "Sum", "Mean", "Clip", "ReduceMax", "ReduceSum")],
    *[("Max", "one, x", ""), ("Min", "x, one", ""), ("Einsum", "x", '<equation = "ij->ji">')],
    *[(f"Reduce{op}", "x", "<noop_with_empty_axes = 1>") for op in ("Sum", "Mean", "Max", "Min")],
    *[(f"Reduce{op}", "x, axis", "") for op in ("Sum", "Mean", "Max", "Min")],
]
"""Operators with the inputs and attributes of calls that may return an element as it is."""


@pytest.mark.parametrize("dtype", SIGNALLING)
@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [*[(op, CALLS.get(op, "x"), ATTRIBUTES.get(op, "")) for op in sorted(_ARITHMETIC)], *COPIES],
)
def test_signalling_nan_becomes_quiet(op: str, inputs: str, attributes: str, dtype: str) -> None:
    before = call(op, inputs, attributes, "p = Mul(y, one)", dtype)
    before.graph.output[0].name = "p"
    model = from_proto(before)
    RemoveNeutralOperandsPass()(model)
    values = {"x": SIGNALLING[dtype], "other": SIGNALLING[dtype]}
    try:
        (expected,) = compute(before, **values)
    except (NoKernel, RuntimeException):  # onnxruntime 1.23 has no reduction without axes
        pytest.skip(f"onnxruntime's CPU provider has no {op} of {dtype}")
    (got,) = compute(ir.serde.serialize_model(model), **values)
    assert got.tobytes() == expected.tobytes()

"""Facts that are inferred for one node hold for the tensors that onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from amounts import amount
from node_cases import OPERATORS, check_case, draw_case
from sessions import run_unoptimized

from onnx_ops.infer import exact, rules, shape_arithmetic
from onnx_ops.model.io import from_proto
from onnx_ops.passes import rewrite

CASES = amount(200)


@pytest.mark.parametrize("op_type", OPERATORS)
def test_facts_hold_for_real_tensors(op_type: str) -> None:
    verdicts = [check_case(draw_case(op_type, number)) for number in range(CASES)]
    assert {number: verdict.wrong for number, verdict in enumerate(verdicts) if verdict.wrong} == {}
    ran = [verdict for verdict in verdicts if verdict.ran]
    assert len(ran) > CASES / 5  # onnxruntime refuses some types and opsets
    assert op_type == "Scan" or sum(verdict.claims for verdict in ran) > len(ran) / 4


def test_each_operator_with_own_rules_has_cases() -> None:
    own = {*rules._RULES, *shape_arithmetic._MOVES, *shape_arithmetic._ELEMENTWISE, *exact.OPERATORS}
    assert own <= set(OPERATORS)


HEADER = """<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (y)
    <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}}> {{ {nodes} }}"""
FOUND: dict[str, tuple[int, str, list[npt.NDArray[Any]], str]] = {
    "the axis of OneHot counts in its output": (
        10,
        "int64[N] x",
        [np.arange(5) % 3],
        """d = Constant<value = int64 {3}>() v = Constant<value = float[2] {0, 1}>() o = OneHot<axis = -1>(x, d, v)
        y = Slice(o, zero, three, zero)""",
    ),
    "a size that is cast to bool is 1": (
        17,
        "float[5, N] x",
        [np.ones((5, 2), np.float32)],
        """s = Shape(x) b = Cast<to = 9>(s) i = Cast<to = 7>(b)
        n = Slice(i, zero, one, zero) y = Slice(x, zero, n, zero)""",
    ),
    "a copied size of 0 leaves another open": (
        17,
        "float[0, 6] x, float[K] w",
        [np.zeros((0, 6), np.float32), np.zeros(5, np.float32)],
        "s = Shape(w) q = Concat<axis = 0>(zero, s) r = Reshape(x, q) h = Shape(r) y = Slice(h, one, two, zero)",
    ),
    "a negative axis of data without elements is not reduced": (
        17,
        "float[M, N, 2] x",
        [np.zeros((1, 0, 2), np.float32)],
        "m = ReduceMean<axes = [-1]>(x) h = Shape(m) y = Slice(h, two, three, zero)",
    ),
    "a Loop that does not run stacks no sizes": (
        17,
        "int64[1] k, int64 n",
        [np.array([5]), np.array(0)],
        """q = Concat<axis = 0>(k, two)
        s = Loop(n, "") <body = b (int64 i, bool c) => (bool d, float[] o) { d = Identity(c) o = ConstantOfShape(q) }>
        h = Shape(s) y = Slice(h, two, three)""",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_rewrite_keeps_the_result_of_each_case(case: str) -> None:
    opset, inputs, arrays, nodes = FOUND[case]
    proto = onnx.parser.parse_model(HEADER.format(opset=opset, inputs=inputs, nodes=nodes))
    model = from_proto(proto)
    rewrite(model)
    expected, rewritten = (run_unoptimized(each, *arrays) for each in (proto, ir.serde.serialize_model(model)))
    assert expected is not None
    assert rewritten is not None
    assert (rewritten[0].shape, rewritten[0].tobytes()) == (expected[0].shape, expected[0].tobytes())

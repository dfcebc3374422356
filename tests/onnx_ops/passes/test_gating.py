"""No pass makes parts of one Split gate one another, which onnxruntime's DirectML provider computes wrongly."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from onnx_ops.defects.conditions import is_gated
from onnx_ops.model.io import from_proto
from onnx_ops.passes import PASSES, rewrite
from onnx_ops.passes.directml.harden import harden_for_directml
from onnx_ops.passes.gating import WOULD_BE_GATED

CONSTANTS = "h = Constant<value_ints=[3, 3]>()  z = Constant<value_ints=[0]>()  t = Constant<value_ints=[3]>()  "
GATE = "s = Sigmoid(b)  y = Mul(a, s)"
MADE = {
    "merge": "a, u = Split(x, h)  v, b = Split(x, h)  k = Neg(u)  l = Neg(v)  w = Add(k, l)",
    "merge parts": "a, u = Split(x, h)  q = Slice(x, t, six, z)  b = Identity(q)  w = Neg(u)",
    "identity": "a, u = Split(x, h)  b = Slice(u, z, t, z)  w = Neg(u)",
    "concat": "a, u = Split(x, h)  j = Concat<axis=0>(u, x)  b = Slice(j, z, t, z)  w = Neg(u)",
    "siblings": "a = Slice(x, z, t, z)  b = Slice(x, t, six, z)  w = Neg(x)",
    "nested": "a, u = Split(x, h)  o = Constant<value_ints=[1, 2]>()  p, c = Split(u, o)  e = Slice(u, z, z, z)"
    "  b = Concat<axis=0>(p, c)  w = Neg(e)",
}


def model_of(body: str, gate: str = GATE) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[6] x) => (float[k] y, float[l] w) {{'
        f"{CONSTANTS} six = Constant<value_ints=[6]>()  {body}  {gate} }}"
    )


def gated_splits(model: ir.Model) -> int:
    return sum(node.op_type == "Split" and is_gated(node.outputs) for node in model.graph)


@pytest.mark.parametrize("body", MADE.values(), ids=MADE)
@pytest.mark.parametrize("names", [None, tuple(PASSES), *((name,) for name in PASSES)], ids=str)
def test_no_pass_makes_it(body: str, names: tuple[str, ...] | None) -> None:
    model = from_proto(model_of(body))
    assert gated_splits(model) == 0
    rewrite(model) if names is None else rewrite(model, names)
    assert gated_splits(model) == 0


@pytest.mark.parametrize(("name", "case"), [("merge", "merge"), ("merge", "merge parts"), ("identity", "identity")])
def test_blocked_rewrite_has_a_reason(name: str, case: str) -> None:
    report = rewrite(from_proto(model_of(MADE[case])), (name,))
    assert WOULD_BE_GATED in [skipped.reason for skipped in report.skipped[name]]


@pytest.mark.parametrize("body", [MADE["merge"], MADE["merge parts"], MADE["identity"]])
def test_parts_without_a_gate_are_merged(body: str) -> None:
    model = from_proto(model_of(body, "s = Neg(b)  y = Mul(a, s)"))
    before = sum(node.op_type in ("Slice", "Split") for node in model.graph)
    rewrite(model)
    assert sum(node.op_type in ("Slice", "Split") for node in model.graph) < before


@pytest.mark.parametrize(
    "gate",
    [
        "i = Identity(b)  s = Sigmoid(i)  y = Mul(a, s)",
        "s = Sigmoid(b)  i = Identity(s)  y = Mul(i, a)",
        "i = Identity(a)  s = Sigmoid(b)  y = Mul(s, i)",
    ],
)
def test_hardening_sees_a_gate_through_identity(gate: str) -> None:
    """onnxruntime removes the Identity before the provider fuses."""
    model = from_proto(model_of("a, b = Split(x, h)  w = Neg(x)", gate))
    assert gated_splits(model) == 1
    assert harden_for_directml(model).is_complete
    assert gated_splits(model) == 0

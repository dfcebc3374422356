"""A MatMul of more than 4 axes is computed by one of 3, bit for bit, or named."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_models import parse
from sessions import compute

from onnx_ops.model.io import from_proto
from onnx_ops.passes.harden_directml import harden_for_directml

Shape = tuple[int, ...]


def declared(left: object, right: object, opset: int = 18) -> ir.Model:
    return from_proto(parse(f"(float{left} a, float{right} b) => (float y) {{ y = MatMul(a, b) }}", opset))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 2, 3, 4, 5), (1, 2, 3, 5, 2)),
        ((2, 3, 1, 4, 5), (2, 3, 1, 5, 2)),
        ((2, 1, 3, 4, 5), (5, 2)),
        ((4, 5), (1, 1, 3, 5, 2)),
        ((1, 1, 1, 4, 5), (1, 1, 1, 5, 2)),
        ((2, 2, 2, 2, 4, 5), (1, 1, 5, 2)),
    ],
)
def test_leading_axes_are_joined(left: Shape, right: Shape) -> None:
    rng = np.random.default_rng(7)
    data = {"a": rng.standard_normal(left, np.float32), "b": rng.standard_normal(right, np.float32)}
    model = declared(list(left), list(right))
    (before,) = compute(ir.serde.serialize_model(model), **data)
    (change,) = harden_for_directml(model).changes
    assert change.replacement == "Reshape + MatMul + Reshape"
    (after,) = compute(ir.serde.serialize_model(model), **data)
    assert after.shape == before.shape
    assert after.tobytes() == before.tobytes()
    assert harden_for_directml(model).changes == ()


@pytest.mark.parametrize(
    ("left", "right", "opset"),
    [
        ("[n,2,3,4,5]", "[n,2,3,5,2]", 18),
        ("[2,2,3,4,5]", "[1,2,3,5,2]", 18),
        ("[2,2,3,4,5]", "[5]", 18),
        ("[2,0,3,4,5]", "[2,0,3,5,2]", 18),
        ("[2,2,3,4,5]", "[5,2]", 1),
    ],
)
def test_others_are_named_and_stay(left: str, right: str, opset: int) -> None:
    model = declared(left, right, opset)
    (change,) = harden_for_directml(model).changes
    assert (change.replacement, [defect.id for defect in change.defects]) == (None, ["matmul of more than 4 axes"])
    assert [node.op_type for node in model.graph] == ["MatMul"]


def test_four_axes_stay() -> None:
    assert harden_for_directml(declared([2, 3, 4, 5], [2, 3, 5, 2])).changes == ()

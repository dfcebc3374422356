"""A ConstantOfShape without elements becomes a constant of the same type and shape; others stay."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_models import parse
from sessions import compute

from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml


def fill(shape: str, value: str = "", element: str = "float") -> ir.Model:
    count = shape.count(",") + 1
    body = f"{{ y = ConstantOfShape{value}(shape) }}"
    return from_proto(parse(f"(float[1] x) => ({element} y) <int64[{count}] shape = {{{shape}}}> {body}", 13))


@pytest.mark.parametrize("shape", ["0", "2, 0", "0, 3, 1"])
@pytest.mark.parametrize(("value", "element"), [("", "float"), ("<value = int64[1] {7}>", "int64")])
def test_empty_fill_becomes_a_constant(shape: str, value: str, element: str) -> None:
    model = fill(shape, value, element)
    (before,) = compute(ir.serde.serialize_model(model), x=np.ones(1, np.float32))
    (change,) = harden_for_directml(model).changes
    assert (change.op, change.replacement) == ("ConstantOfShape", "Constant")
    (after,) = compute(ir.serde.serialize_model(model), x=np.ones(1, np.float32))
    assert (after.shape, after.dtype) == (before.shape, before.dtype)


@pytest.mark.parametrize("shape", ["1", "2, 3"])
def test_fill_with_elements_stays(shape: str) -> None:
    assert harden_for_directml(fill(shape)).changes == ()

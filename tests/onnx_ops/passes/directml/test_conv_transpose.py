"""A ConvTranspose of one axis loses its output_padding, bit for bit, or is named."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_models import parse
from sessions import compute

from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml


def upsampling(attributes: str, opset: int = 20) -> ir.Model:
    graph = f"(float[1,4,8] x, float[4,2,5] w) => (float y) {{ y = ConvTranspose<{attributes}>(x, w) }}"
    return from_proto(parse(graph, opset))


@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (0, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 3])
def test_output_padding_becomes_a_smaller_pad(pads: tuple[int, int], extra: int, stride: int, dilation: int) -> None:
    if extra >= stride:
        return
    attributes = f"strides=[{stride}], dilations=[{dilation}], pads=[{pads[0]}, {pads[1]}], output_padding=[{extra}]"
    model = upsampling(attributes)
    rng = np.random.default_rng(5)
    data = {"x": rng.standard_normal((1, 4, 8), np.float32), "w": rng.standard_normal((4, 2, 5), np.float32)}
    (before,) = compute(ir.serde.serialize_model(model), **data)
    (change,) = harden_for_directml(model).changes
    assert (change.replacement is None) == (extra > pads[1])
    (after,) = compute(ir.serde.serialize_model(model), **data)
    assert after.shape == before.shape
    assert after.tobytes() == before.tobytes()


@pytest.mark.parametrize("attributes", ['auto_pad="SAME_UPPER"', "output_shape=[20]", "pads=[2, 0]"])
def test_others_are_named_and_stay(attributes: str) -> None:
    model = upsampling(f"strides=[2], output_padding=[1], {attributes}")
    (change,) = harden_for_directml(model).changes
    assert (change.replacement, [defect.id for defect in change.defects]) == (None, ["output_padding of one axis"])
    assert "output_padding" in next(iter(model.graph)).attributes


def test_padding_that_the_provider_takes_stays() -> None:
    assert harden_for_directml(upsampling("strides=[2], pads=[1, 1]")).changes == ()
    assert harden_for_directml(upsampling("strides=[2], pads=[1, 1], output_padding=[1]", 22)).changes == ()
    squares = "(float[1,4,8,8] x, float[4,2,5,5] w) => (float y) { y = ConvTranspose<output_padding=[0, 0]>(x, w) }"
    assert harden_for_directml(from_proto(parse(squares, 20))).changes == ()

"""onnxruntime's DirectML provider beside our lowering on the same DirectML: every model, and what it gets wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from amounts import some
from onnx_models import parse

from onnx_ops.running.compare import compare
from sliceport import device
from sliceport.device import CallFailed
from sliceport.engines.registry import engines_for_nodes

MODELS = Path(__file__).parents[3] / "models"
SHAPES = {
    e["file"]: {k: tuple(v) for k, v in e["input_shapes"].items()}
    for e in json.loads((MODELS / "models.json").read_text())
}
# node: what the provider does, and why
PROVIDER = {
    "rule_split_empty_part.onnx": {"split_a": "mismatch", "split_d": "mismatch"},  # skips a Split with an empty part
    "rule_rank_nine.onnx": {"slice_y": "error"},  # refuses more than 8 dimensions
    "rule_types.onnx": {"slice_p": "error"},  # takes no bfloat16
    "dynamo_bfloat16_cache.onnx": dict.fromkeys(  # the same
        ("node_Split_42", "node_flip", "node_slice_1", "node_slice_2", "node_slice_3"), "error"
    ),
    "dynamo_zero_part.onnx": {"node_Split_4": "mismatch"},  # an empty part
}


@pytest.mark.parametrize("path", some(sorted(MODELS.glob("*.onnx"))), ids=lambda path: path.name)
def test_provider_computes_every_model(directml: device.Device, path: Path) -> None:
    shapes = SHAPES.get(path.name, {"x": (2, 5, 8)} if path.name == "rule_symbolic.onnx" else {})
    report = compare(
        path, input_shapes=shapes, executors=sorted(engines_for_nodes("onnx").keys() - {"directml-validate"})
    )
    seen = {}
    for comparison in report.comparisons:
        if comparison.executor == "onnxruntime-dml":
            if not comparison.is_clean:
                seen[comparison.lowered.node.name] = comparison.status
        else:
            assert comparison.is_clean or comparison.status == "refused", comparison.detail
    assert seen == PROVIDER.get(path.name, {})


SPLIT = "a, b = Split<axis = -1> (x)"
SLICES = "a = Slice (x, zero, half, axis)  b = Slice (x, half, end, axis)"


def glu(cut: str, shape: tuple[int, ...]) -> bytes:
    """Return a model of `a * Sigmoid(b)` of the halves of the last axis."""
    half = shape[-1] // 2
    bounds = {"zero": 0, "half": half, "end": 2 * half, "axis": len(shape) - 1}
    constants = ", ".join(f"int64[1] {name} = {{{value}}}" for name, value in bounds.items())
    types = f"(float{[*shape]} x) => (float{[*shape[:-1], half]} y)"
    model = parse(f"{types} <{constants}> {{ {cut}  s = Sigmoid (b)  y = Mul (a, s) }}", 13)
    if cut == SPLIT:
        del model.graph.initializer[:]
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("shape", [(2, 4), (1, 3, 8)])
def test_glu_by_split_is_wrong_and_by_slices_right(directml: device.Device, shape: tuple[int, ...]) -> None:
    """onnxruntime 32146, open in 1.24.4: one output of the Split takes the other's place."""
    x = np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    a, b = np.split(x, 2, axis=-1)
    right, seen = a / (1 + np.exp(-b)), b / (1 + np.exp(-b))
    assert directml.facts()["onnxruntime"] == "1.24.4"
    (by_slices,) = directml.run_onnx(glu(SLICES, shape), {"x": x}, ["y"])
    np.testing.assert_allclose(by_slices, right, atol=1e-6)
    (by_split,) = directml.run_onnx(glu(SPLIT, shape), {"x": x}, ["y"])
    np.testing.assert_allclose(by_split, seen, atol=1e-6, err_msg="the provider is right now: remove this test")


def test_the_provider_refuses_what_is_not_a_model(directml: device.Device) -> None:
    with pytest.raises(CallFailed, match="CreateSession failed"):
        directml.run_onnx(b"no model", {}, [])

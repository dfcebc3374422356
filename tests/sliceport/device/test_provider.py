"""onnxruntime's DirectML provider beside our lowering on the same DirectML: every model, and what it gets wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amounts import some

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


def test_the_provider_refuses_what_is_not_a_model(directml: device.Device) -> None:
    with pytest.raises(CallFailed, match="CreateSession failed"):
        directml.run_onnx(b"no model", {}, [])

"""The official ONNX node tests of Slice and Split, all of them, at every feature level, through the emulator."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import pytest
from onnx_node_cases import CASES, with_constants
from running import as_arrays, as_bytes, run_node
from sessions import open_session

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes import rewrite
from sliceport.directml.feature_levels import FeatureLevel


def test_every_node_test_of_onnx_is_found() -> None:
    names = set(CASES)
    assert {"test_slice", "test_slice_neg", "test_slice_negative_axes", "test_slice_start_out_of_bounds"} <= names
    assert {"test_split_equal_parts_1d_opset13", "test_split_zero_size_splits_opset18"} <= names
    assert len([n for n in names if n.startswith("test_slice")]) == 8
    assert len([n for n in names if n.startswith("test_split")]) == 16


@pytest.mark.usefixtures("inferred_once")
@pytest.mark.parametrize("level", list(FeatureLevel), ids=str)
@pytest.mark.parametrize("name", sorted(CASES))
def test_lowered_nodes_compute_the_same_bits(name: str, level: FeatureLevel) -> None:
    model, inputs, outputs = CASES[name]
    (lowered,) = sliceport.lower(with_constants(model, inputs), feature_level=level).nodes
    if lowered.verdict == "refused":
        assert level < FeatureLevel.V2_1
        assert (lowered.reason and lowered.reason.code) == "feature_level"
        assert any(kept.step < 0 for cut in lowered.resolved.cuts for kept in cut.region.ranges)
        return
    got = run_node(lowered, as_bytes(inputs[0]))
    for cut, expected in zip(lowered.resolved.cuts, outputs, strict=True):
        assert cut.region.output_shape == expected.shape
        assert np.array_equal(got[cut.output][: expected.nbytes], as_bytes(expected))


@pytest.mark.parametrize("name", sorted(CASES))
def test_rewritten_nodes_compute_the_same_bits(name: str) -> None:
    """Check onnx's expected results against onnxruntime after every pass."""
    proto, inputs, outputs = CASES[name]
    model = from_proto(with_constants(proto, inputs))
    rewrite(model)
    after = ir.serde.serialize_model(model)
    onnx.checker.check_model(after, full_check=True)
    got = open_session(after).run(None, {proto.graph.input[0].name: inputs[0]})
    for array, expected in zip(as_arrays(got), outputs, strict=True):
        assert array.shape == expected.shape
        assert array.dtype == expected.dtype
        assert np.array_equal(as_bytes(array), as_bytes(expected))

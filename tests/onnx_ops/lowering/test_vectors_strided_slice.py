"""StridedSlice cases of tensorflow-directml-plugin and OpenVINO through the spec, the lowering and the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from running import as_bytes, run_node
from vectors import array, load

from sliceport.directml.lower import lower_nodes
from sliceport.slicing import Masks, Region, SliceSpec, StridedSliceSpec
from sliceport.slicing.node import Cut, Resolved

MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
ELEMENTS = {"float32": "FLOAT", "int64": "INT64", "int32": "INT32", "int16": "INT16", "int8": "INT8", "uint8": "UINT8"}
ELEMENTS["bool"] = "BOOL"
TENSORFLOW = load("tf_directml_strided_slice")
REFERENCE = load("openvino_reference")


def masks_of(case: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(case[name]) for name in MASKS}


def optional(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def select(data: np.ndarray, region: Region) -> np.ndarray:
    return data[region.slices].reshape(region.output_shape)


@pytest.mark.parametrize("case", TENSORFLOW, ids=lambda c: c["name"])
def test_tensorflow_cases_are_right_and_as_simple_as_the_plugins(case: dict[str, Any]) -> None:
    data, expected = array(case["input"]), array(case["expected"])
    spec = StridedSliceSpec(tuple(case["begin"]), tuple(case["end"]), tuple(case["strides"]), Masks.of(case))
    region = spec.resolve(data.shape)
    assert region.output_shape == expected.shape
    element = ELEMENTS[case["input"]["dtype"]]
    node = Resolved("n", "StridedSlice", "", 1, (), "x", element, ("y",), cuts=(Cut("y", region, True),))
    (lowered,) = lower_nodes([node]).nodes
    assert np.array_equal(run_node(lowered, as_bytes(data))["y"][: expected.nbytes], as_bytes(expected))
    simplified = case["simplified"]
    if simplified["status"] == "identity":
        assert lowered.verdict == "alias"
    elif simplified["status"] == "noop (empty)":
        assert lowered.verdict == "empty"
    else:
        assert len(lowered.calls) <= 1
        for call in lowered.calls:
            assert call.operator.input_tensor.rank <= max(1, simplified["effective_rank"])


@pytest.mark.parametrize("case", REFERENCE, ids=lambda c: c["name"])
def test_openvinos_own_cases_are_right(case: dict[str, Any]) -> None:
    data = np.array(case["data"], np.int64).reshape(case["data_shape"])
    if case["op"] == "StridedSlice":
        arguments = (tuple(case["begin"]), tuple(case["end"]), optional(case["stride"]))
        region = StridedSliceSpec(*arguments, Masks.of(case)).resolve(data.shape)
        by_oracle = oracle.strided_slice(data, *arguments, **masks_of(case))
    else:
        bounds = (tuple(case["start"]), tuple(case["stop"]), optional(case["axes"]), tuple(case["step"]))
        region = SliceSpec(*bounds).resolve(data.shape)
        by_oracle = oracle.onnx_slice(data, *bounds)
    expected = np.array(case["expected"], np.int64).reshape(case["expected_shape"])
    assert np.array_equal(select(data, region), expected)
    assert np.array_equal(by_oracle, expected)
    assert by_oracle.shape == region.output_shape == expected.shape

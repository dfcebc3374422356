"""All of onnxruntime's own Slice and Split tests, error cases too, through the lowering and the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx_models import one_node
from onnxruntime_cases import BAD, DISPUTED, GOOD, NAMES, STRINGS, identify
from running import as_bytes, run_node
from vectors import array

import sliceport
from sliceport.defects.engines import ONNXRUNTIME_CPU
from sliceport.defects.table import find_defect
from sliceport.directml.lowered import LoweredNode

BACKWARD_TO_THE_GREATEST = find_defect("backward slice to the greatest integer")


def lowered(case: dict[str, Any], *, run_time: bool = False) -> tuple[LoweredNode, npt.NDArray[Any]]:
    data = array(case["inputs"][0])
    given = [None if "omitted" in tensor else array(tensor) for tensor in case["inputs"][1:]]
    parameters = list(zip(NAMES[case["op"]], given, strict=False))
    count = len(case.get("expected") or case["expected_outputs_declared"])
    model = one_node(case["op"], case["opset"], data, parameters, case["attrs"], count, run_time=run_time)
    (node,) = sliceport.lower(model).nodes
    return node, data


def test_the_file_is_complete() -> None:
    assert (len(GOOD), len(BAD), len(STRINGS), len(DISPUTED)) == (159, 10, 12, 2)


@pytest.mark.parametrize("case", [c for c in GOOD if c not in STRINGS and c not in DISPUTED], ids=identify)
def test_lowered_nodes_compute_the_same_bits(case: dict[str, Any]) -> None:
    node, data = lowered(case)
    assert node.reason is None
    got = run_node(node, as_bytes(data))
    for i, tensor in enumerate(case["expected"]):
        expected = array(tensor)
        assert node.resolved.cuts[i].region.output_shape == expected.shape
        assert np.array_equal(got[f"out{i}"][: expected.nbytes], as_bytes(expected))


@pytest.mark.parametrize("case", STRINGS, ids=identify)
def test_strings_are_resolved_and_then_refused(case: dict[str, Any]) -> None:
    node, _ = lowered(case)
    shapes = [list(cut.region.output_shape) for cut in node.resolved.cuts]
    assert shapes == [tensor["shape"] for tensor in case["expected"]]
    if any(0 in shape for shape in shapes):
        assert node.verdict == "empty"
    else:
        assert (node.reason and node.reason.code) == "unsupported_type"


@pytest.mark.parametrize("case", BAD, ids=identify)
def test_errors_are_refusals(case: dict[str, Any]) -> None:
    node, _ = lowered(case)
    assert (node.reason and node.reason.code) == "invalid"


@pytest.mark.parametrize("case", DISPUTED, ids=identify)
def test_the_disputed_reversal_follows_the_onnx_text(case: dict[str, Any]) -> None:
    """onnxruntime reverses the whole axis; the table of defects has the reasons and the proof."""
    node, _ = lowered(case)
    assert node.verdict == "empty"
    assert case["expected"][0]["shape"] == [4]
    assert BACKWARD_TO_THE_GREATEST.engines == (ONNXRUNTIME_CPU,)


@pytest.mark.parametrize("case", [c for c in GOOD if any("dtype" in i for i in c["inputs"][1:])], ids=identify)
def test_run_time_parameters_are_refused_as_such(case: dict[str, Any]) -> None:
    node, _ = lowered(case, run_time=True)
    assert (node.reason and node.reason.code) == "dynamic_parameter"

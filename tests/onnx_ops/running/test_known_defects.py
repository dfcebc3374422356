"""`compare` names the known defect, and its engine, that explains a difference."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser
from onnx_models import parse, save

from onnx_ops.lowering import lower
from onnx_ops.running.compare import compare
from onnx_ops.running.known_defects import known_defects
from sliceport import device
from sliceport.defects.defect import Defect
from sliceport.defects.engines import ONNXRUNTIME_CPU, ONNXRUNTIME_DML
from sliceport.defects.table import find_defect
from sliceport.slicing.node import Resolved

BACKWARD_TO_THE_GREATEST = find_defect("backward slice to the greatest integer")
BELOW_THE_AXIS = find_defect("backwards from below the axis")
EMPTY_PART = find_defect("a part is empty")
FROM_THE_LEAST = find_defect("from the least integer to a negative end")
MORE_THAN_EIGHT_AXES = find_defect("more than 8 axes")
NOTHING_SELECTED = find_defect("nothing is selected")
STEPS_WITHOUT_AXES = find_defect("steps without axes")


def case_of(defect: Defect) -> onnx.ModelProto:
    return parser.parse_model(defect.examples[0].case.to_json()["onnx"])


def test_a_defect_of_the_reference_is_not_blamed_on_the_emulator(tmp_path: Path) -> None:
    (found,) = compare(save(case_of(BACKWARD_TO_THE_GREATEST), tmp_path / "m.onnx")).comparisons
    assert (found.executor, found.status) == ("dml-emulator", "mismatch")
    reason = f"{BACKWARD_TO_THE_GREATEST.id} ({BACKWARD_TO_THE_GREATEST.reason})"
    assert found.detail.endswith(f"; this is a known defect of onnxruntime-cpu: {reason}.")


@pytest.mark.parametrize(
    "defect",
    [BELOW_THE_AXIS, EMPTY_PART, FROM_THE_LEAST, MORE_THAN_EIGHT_AXES, STEPS_WITHOUT_AXES],
    ids=lambda defect: defect.id,
)
def test_a_defect_of_the_directml_provider_is_named(directml: device.Device, tmp_path: Path, defect: Defect) -> None:
    assert directml.facts()
    onnx.save(case_of(defect), tmp_path / "m.onnx")
    report = compare(tmp_path / "m.onnx", executors=("onnxruntime-cpu", "dml-emulator", "onnxruntime-dml"))
    ours, theirs = report.comparisons
    assert (ours.status, ours.detail) == ("equal", "")
    assert theirs.status in ("mismatch", "error")
    assert f"; this is a known defect of onnxruntime-dml: {defect.id} (" in theirs.detail


def test_every_engine_has_its_own_defects() -> None:
    (node,) = lower(case_of(BELOW_THE_AXIS)).nodes
    assert known_defects(node.resolved, ONNXRUNTIME_DML) == [BELOW_THE_AXIS]
    assert known_defects(node.resolved, ONNXRUNTIME_CPU) == []
    assert known_defects(node.resolved, "somebody's") == []


def test_a_right_node_has_no_defects() -> None:
    constants = "<int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {0}>"
    (node,) = lower(parse(f"(float[4] x) => (float[n] y) {constants} {{ y = Slice(x, s, e, a) }}", 13)).nodes
    assert isinstance(node.node, Resolved)
    assert known_defects(node.node, ONNXRUNTIME_DML) == []
    (first, _) = lower(case_of(NOTHING_SELECTED)).nodes
    assert known_defects(first.resolved, ONNXRUNTIME_DML) == [NOTHING_SELECTED]

"""The official ONNX node tests and onnxruntime's own tests on the real DirectML, and the zoo's exports.

Our lowering on DirectML gives what the tests expect, every time; so does the provider, but for what is listed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx_node_cases import CASES as NODE_TESTS
from onnx_node_cases import with_constants
from onnxruntime_cases import DISPUTED, GOOD, STRINGS, identify, vector_model
from running import as_bytes
from vectors import array

import sliceport
from onnx_ops.running.compare import compare
from sliceport import device
from sliceport.defects.engines import ONNXRUNTIME_DML, VERSIONS
from sliceport.device import CallFailed

VECTORS = [case for case in GOOD if case not in STRINGS and case not in DISPUTED]
ZOO = {"gpt2": {}, "gptneox_dyn": {"x": (1, 16)}, "swin": {}, "ts_roformer_op13": {"x": (1, 16)}}


def by_our_lowering(directml: device.Device, model: onnx.ModelProto, data: npt.NDArray[Any]) -> list[bytes]:
    (lowered,) = sliceport.lower(model).nodes
    got = {cut.output: np.zeros(0, np.uint8) for cut in lowered.resolved.cuts if cut.region.is_empty}
    got |= {alias.output: as_bytes(data) for alias in lowered.aliases}
    for call in lowered.calls:
        results = directml.run(call.operator, as_bytes(data))
        got |= {binding.value: result for binding, result in zip(call.outputs, results, strict=True)}
    return [bytes(got[cut.output]) for cut in lowered.resolved.cuts]


def assert_bytes(got: list[bytes], expected: list[np.ndarray]) -> None:
    for data, want in zip(got, expected, strict=True):
        assert data[: want.nbytes] == as_bytes(want).tobytes()


@pytest.mark.parametrize("name", sorted(NODE_TESTS))
def test_node_tests(directml: device.Device, name: str) -> None:
    model, inputs, outputs = NODE_TESTS[name]
    constant = with_constants(model, inputs)
    assert_bytes(by_our_lowering(directml, constant, inputs[0]), outputs)
    names = [value.name for value in model.graph.output]
    data = {model.graph.input[0].name: inputs[0]}
    for got, want in zip(directml.run_onnx(constant.SerializeToString(), data, names), outputs, strict=True):
        assert got.shape == want.shape
        assert got.tobytes() == want.tobytes()


def test_our_lowering_is_right_for_every_vector(directml: device.Device) -> None:
    for case in VECTORS:
        model, data = vector_model(case)
        assert_bytes(by_our_lowering(directml, model, data), [array(tensor) for tensor in case["expected"]])
    assert len(VECTORS) == 145


def provider_says(directml: device.Device, case: dict[str, Any]) -> str:
    model, data = vector_model(case)
    expected = [array(tensor) for tensor in case["expected"]]
    try:
        results = directml.run_onnx(
            model.SerializeToString(), {"data": data}, [f"out{i}" for i in range(len(expected))]
        )
    except CallFailed:
        return "error"
    same = all(r.shape == e.shape and r.tobytes() == e.tobytes() for r, e in zip(results, expected, strict=True))
    return "equal" if same else "mismatch"


# What the provider gets wrong of onnxruntime's own tests, by test, with the reason.
WRONG = {
    "SplitOperatorTest.Axis0EqualSplit/opset13/bfloat16/dyn": "error",  # takes no bfloat16
    "SplitOperatorTest.ZeroSizeOutput/opset13/float32/init": "mismatch",  # skips a Split with an empty part
}


def test_provider_differs_from_the_vectors_only_by_known_defects(directml: device.Device) -> None:
    assert directml.facts()["onnxruntime"] in VERSIONS[ONNXRUNTIME_DML]
    seen = {identify(case): provider_says(directml, case) for case in VECTORS}
    assert {name: what for name, what in seen.items() if what != "equal"} == WRONG


@pytest.mark.parametrize("case", DISPUTED, ids=identify)
def test_provider_follows_the_onnx_text_in_cases_that_the_cpu_gets_wrong(
    directml: device.Device, case: dict[str, Any]
) -> None:
    model, data = vector_model(case)
    (got,) = directml.run_onnx(model.SerializeToString(), {"data": data}, ["out0"])
    assert got.shape == (0,)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_zoo_is_equal_on_every_engine(directml: device.Device, zoo: Path, name: str) -> None:
    report = compare(
        zoo / f"{name}.onnx", input_shapes=ZOO[name], executors=("onnxruntime-cpu", "directml", "onnxruntime-dml")
    )
    assert [c.detail for c in report.comparisons if c.status not in ("equal", "folded")] == []

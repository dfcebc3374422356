"""onnxruntime's own Slice and Split tests, error cases too."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import onnx
from onnx_models import one_node
from vectors import array, load

CASES = load("onnxruntime_slice_split")
GOOD = [case for case in CASES if "expected" in case]
BAD = [case for case in CASES if "expected_error" in case]
STRINGS = [case for case in GOOD if case["inputs"][0]["dtype"] == "string"]
DISPUTED = [case for case in GOOD if case.get("onnx_shape_disagreement")]
NAMES = {"Slice": ("starts", "ends", "axes", "steps"), "Split": ("split",)}


def identify(case: dict[str, Any]) -> str:
    return str(case["name"])


def vector_model(case: dict[str, Any]) -> tuple[onnx.ModelProto, npt.NDArray[Any]]:
    """Return a model of a case, and the array that it slices."""
    data = array(case["inputs"][0])
    given = [None if "omitted" in tensor else array(tensor) for tensor in case["inputs"][1:]]
    parameters = list(zip(NAMES[case["op"]], given, strict=False))
    return one_node(case["op"], case["opset"], data, parameters, case["attrs"], len(case["expected"])), data

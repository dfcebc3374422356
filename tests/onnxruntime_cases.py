"""onnxruntime's own Slice and Split tests, error cases too."""

from __future__ import annotations

from typing import Any

from vectors import load

CASES = load("onnxruntime_slice_split")
GOOD = [case for case in CASES if "expected" in case]
BAD = [case for case in CASES if "expected_error" in case]
STRINGS = [case for case in GOOD if case["inputs"][0]["dtype"] == "string"]
DISPUTED = [case for case in GOOD if case.get("onnx_shape_disagreement")]
NAMES = {"Slice": ("starts", "ends", "axes", "steps"), "Split": ("split",)}


def identify(case: dict[str, Any]) -> str:
    return str(case["name"])

"""OpenVINO's CPU plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "OpenVINO, CPU plugin"
REQUIREMENTS = ["openvino==2026.4.1", "numpy==2.4.6"]
FORMATS = ("onnx", "openvino")
SPILLS = True
PRELOAD = ("openvino",)


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import ml_dtypes
    import numpy as np
    import openvino

    core = openvino.Core()
    options = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        compiled = core.compile_model(model, "CPU", options)
        read = {name for value in compiled.inputs for name in value.names}  # without inputs that no node needs
        results = compiled({name: value for name, value in inputs.items() if name in read})
        arrays = [np.array(results[i]) for i in range(len(compiled.outputs))]
        kinds = [value.element_type for value in compiled.outputs]
        # NumPy has no bfloat16, so OpenVINO shows its bits as float16.
        pairs = zip(arrays, kinds, strict=True)
        return [array.view(ml_dtypes.bfloat16) if kind == openvino.Type.bf16 else array for array, kind in pairs]

    return run

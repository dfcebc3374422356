"""OpenVINO's Model.evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "OpenVINO, Model.evaluate"
REQUIREMENTS = ["openvino==2026.4.1", "numpy==2.4.6"]
FORMATS = ("onnx", "openvino")
SPILLS = True
PRELOAD = ("openvino",)


def open_engine() -> Run:
    """Load the engine."""
    import numpy as np
    import openvino

    core = openvino.Core()

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        network = core.read_model(model)
        tensors = [openvino.Tensor(np.ascontiguousarray(inputs[value.any_name])) for value in network.inputs]
        outputs = [openvino.Tensor(value.element_type, openvino.Shape([])) for value in network.outputs]
        if not network.evaluate(outputs, tensors):
            raise RuntimeError("Model.evaluate returns False")
        return [np.array(output.data) for output in outputs]

    return run

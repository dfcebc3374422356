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
    """Load the engine, and return the function that runs a model on it."""
    import ml_dtypes
    import numpy as np
    import openvino

    core = openvino.Core()

    def make_tensor(kind: Any, array: Any) -> Any:
        tensor = openvino.Tensor(kind, openvino.Shape(array.shape))
        tensor.data[...] = array.view(tensor.data.dtype)
        return tensor

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        network = core.read_model(model)
        tensors = [make_tensor(value.element_type, inputs[value.any_name]) for value in network.inputs]
        outputs = [openvino.Tensor(value.element_type, openvino.Shape([])) for value in network.outputs]
        if not network.evaluate(outputs, tensors):
            raise RuntimeError("Model.evaluate returns False")
        arrays = [np.array(output.data) for output in outputs]
        kinds = [output.element_type for output in outputs]
        # NumPy has no bfloat16, so OpenVINO shows its bits as float16.
        pairs = zip(arrays, kinds, strict=True)
        return [array.view(ml_dtypes.bfloat16) if kind == openvino.Type.bf16 else array for array, kind in pairs]

    return run

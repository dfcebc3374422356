"""onnxruntime's OpenVINO provider, without a node on the CPU provider.

The provider takes no model that is a single Slice, so that each model has another node beside its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "onnxruntime, OpenVINO provider"
REQUIREMENTS = ["onnxruntime-openvino==1.24.1", "onnx==1.23.2", "numpy==2.4.6"]
SPILLS = True
PRELOAD = ("onnx", "onnxruntime")


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import numpy as np
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        proto = onnx.load(model)
        proto.graph.node.append(onnx.helper.make_node("Relu", ["beside"], ["relu"]))
        proto.graph.input.append(onnx.helper.make_tensor_value_info("beside", onnx.TensorProto.FLOAT, [1]))
        proto.graph.output.append(onnx.helper.make_tensor_value_info("relu", onnx.TensorProto.FLOAT, [1]))
        content = proto.SerializeToString()
        session = onnxruntime.InferenceSession(content, options, ["OpenVINOExecutionProvider"])
        return list(session.run(None, {**inputs, "beside": np.ones(1, np.float32)}))[:-1]

    return run

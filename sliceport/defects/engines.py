"""The engines in the table of defects. An engine that is also an executor has its name in `--executors`."""

from __future__ import annotations

ONNXRUNTIME_CPU = "onnxruntime-cpu"
ONNXRUNTIME_CPU_OPTIMIZED = "onnxruntime-cpu-optimized"
ONNXRUNTIME_DML = "onnxruntime-dml"
ONNX_REFERENCE = "onnx-reference"
OPENVINO = "openvino"
OPENVINO_CPU = "openvino-cpu"
DIRECTML = "directml"

TITLES = {
    ONNXRUNTIME_DML: "onnxruntime's DirectML provider",
    OPENVINO_CPU: "OpenVINO's CPU plugin",
    OPENVINO: "OpenVINO's Model.evaluate",
    ONNXRUNTIME_CPU: "onnxruntime's CPU provider",
    ONNXRUNTIME_CPU_OPTIMIZED: "onnxruntime's default graph optimisation",
    ONNX_REFERENCE: "onnx's reference evaluator",
    DIRECTML: "DirectML",
}
"""Names of the engines in sentences."""

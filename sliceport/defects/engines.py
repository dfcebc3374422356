"""The engines in the table of defects. An engine that is also an executor has its name in `--executors`."""

from __future__ import annotations

ONNXRUNTIME_CPU = "onnxruntime-cpu"
ONNXRUNTIME_CPU_OPTIMIZED = "onnxruntime-cpu-optimized"
ONNXRUNTIME_DML = "onnxruntime-dml"
ONNX_REFERENCE = "onnx-reference"
OPENVINO = "openvino"
OPENVINO_CPU = "openvino-cpu"
OPENVINO_ONNX = "openvino-onnx"
DIRECTML = "directml"

TITLES = {
    ONNXRUNTIME_DML: "onnxruntime's DirectML provider",
    OPENVINO_CPU: "OpenVINO's CPU plugin",
    OPENVINO: "OpenVINO's Model.evaluate",
    OPENVINO_ONNX: "OpenVINO's reader of ONNX models",
    ONNXRUNTIME_CPU: "onnxruntime's CPU provider",
    ONNXRUNTIME_CPU_OPTIMIZED: "onnxruntime's default graph optimisation",
    ONNX_REFERENCE: "onnx's reference evaluator",
    DIRECTML: "DirectML",
}
"""Names in sentences of the engines that tests run."""

IREE = "iree"
MIGRAPHX = "migraphx"
NCNN = "ncnn"
ONNXRUNTIME_COREML = "onnxruntime-coreml"
ONNXRUNTIME_CUDA = "onnxruntime-cuda"
ONNXRUNTIME_QNN = "onnxruntime-qnn"
ONNXRUNTIME_WEBGL = "onnxruntime-webgl"
ONNXRUNTIME_WEBNN = "onnxruntime-webnn"
OPENCV = "opencv"
OPENVINO_GPU = "openvino-gpu"
TENSORRT = "tensorrt"

REPORTED_TITLES = {
    ONNXRUNTIME_CUDA: "onnxruntime's CUDA provider",
    ONNXRUNTIME_QNN: "onnxruntime's QNN provider",
    ONNXRUNTIME_COREML: "onnxruntime's CoreML provider",
    ONNXRUNTIME_WEBNN: "onnxruntime's WebNN provider",
    ONNXRUNTIME_WEBGL: "onnxruntime's WebGL backend",
    OPENVINO_GPU: "OpenVINO's GPU plugin",
    TENSORRT: "TensorRT",
    MIGRAPHX: "MIGraphX",
    IREE: "IREE",
    OPENCV: "OpenCV's dnn module",
    NCNN: "ncnn's converter of ONNX models",
}
"""Names in sentences of the engines that no test can run, because they need other hardware or software."""

ALL_TITLES = TITLES | REPORTED_TITLES

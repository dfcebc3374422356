"""The engines in the table of defects. An engine that `compare` runs has the same name in `--executors`."""

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
"""The engines that tests run, each with its name in sentences."""

REPORTED_TITLES = {
    "onnxruntime-cuda": "onnxruntime's CUDA provider",
    "onnxruntime-qnn": "onnxruntime's QNN provider",
    "onnxruntime-coreml": "onnxruntime's CoreML provider",
    "onnxruntime-webnn": "onnxruntime's WebNN provider",
    "onnxruntime-webgl": "onnxruntime's WebGL backend",
    "openvino-gpu": "OpenVINO's GPU plugin",
    "tensorrt": "TensorRT",
    "migraphx": "MIGraphX",
    "iree": "IREE",
    "opencv": "OpenCV's dnn module",
    "ncnn": "ncnn's converter of ONNX models",
    "mnn": "MNN",
    "onnx2torch": "onnx2torch",
    "tinygrad": "tinygrad",
    "tract": "tract",
    "tvm": "TVM",
}
"""The engines that no test runs, because they need other hardware or software, each with its name in sentences."""

ALL_TITLES = TITLES | REPORTED_TITLES

PLACES = {
    "CPUExecutionProvider": ONNXRUNTIME_CPU,
    "DmlExecutionProvider": ONNXRUNTIME_DML,
    "CPU": OPENVINO_CPU,
}
"""The engine of each provider or device on which a model may run elsewhere, if tests run the engine."""

VERSIONS = {
    ONNXRUNTIME_DML: ("1.24.4",),
    OPENVINO_CPU: ("2026.4.1",),
    OPENVINO: ("2026.4.1",),
    OPENVINO_ONNX: ("2026.4.1",),
    ONNXRUNTIME_CPU: ("1.31.1", "1.32.0"),
    ONNXRUNTIME_CPU_OPTIMIZED: ("1.31.1", "1.32.0"),
    ONNX_REFERENCE: ("1.23.2",),
    DIRECTML: ("1.24.4",),
}
"""The versions of each engine on which tests have run the entries, unless a divergence states its versions."""

PACKAGES = {
    OPENVINO_CPU: ("openvino",),
    OPENVINO: ("openvino",),
    OPENVINO_ONNX: ("openvino",),
    ONNXRUNTIME_CPU: ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml"),
    ONNXRUNTIME_CPU_OPTIMIZED: ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml"),
    ONNXRUNTIME_DML: ("onnxruntime-directml",),
    ONNX_REFERENCE: ("onnx",),
}
"""The packages that install an engine. The first one that is installed has the version of the engine."""

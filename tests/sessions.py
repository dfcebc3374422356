"""Sessions of onnxruntime's CPU provider that compute node by node, as the model has them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import onnx
import onnxruntime as ort
from running import as_arrays


def open_unoptimized(proto: onnx.ModelProto) -> ort.InferenceSession:
    """Return a session without optimisation, of one thread, that prints nothing."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


def compute(proto: onnx.ModelProto, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return the results, all of them tensors."""
    return as_arrays(open_unoptimized(proto).run(None, inputs))


def run_unoptimized(proto: onnx.ModelProto, *arrays: Any) -> list[Any] | None:
    """Return the results for inputs in their order; None if onnxruntime does not run the model."""
    names = [value.name for value in proto.graph.input]
    try:
        return list(open_unoptimized(proto).run(None, dict(zip(names, arrays, strict=True))))
    except Exception:
        return None

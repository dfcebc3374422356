"""Sessions of onnxruntime's CPU provider, and results of models on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt
import onnx
import onnxruntime as ort
from running import as_arrays

from onnx_ops.running import session


def open_session(proto: onnx.ModelProto, *, optimized: bool = True) -> ort.InferenceSession:
    """Return a session of one thread that prints nothing."""
    options, levels = ort.SessionOptions(), ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Fill new memory with large floats, so that elements that onnxruntime never writes are not right by luck."""
    session._fill_new_memory(0x5A)
    yield
    session._fill_new_memory(0)


def compute(proto: onnx.ModelProto, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return the results, all of them tensors."""
    return as_arrays(open_session(proto, optimized=False).run(None, inputs))


def run_unoptimized(proto: onnx.ModelProto, *arrays: Any) -> list[Any] | None:
    """Return the results for inputs in their order; None if onnxruntime does not run the model."""
    names = [value.name for value in proto.graph.input]
    try:
        return list(open_session(proto, optimized=False).run(None, dict(zip(names, arrays, strict=True))))
    except Exception:
        return None

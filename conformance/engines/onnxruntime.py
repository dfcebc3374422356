"""onnxruntime's CPU provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "onnxruntime, CPU provider"
REQUIREMENTS = ["onnxruntime==1.31.1", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        return list(session.run(None, inputs))

    return run

"""tinygrad. It computes in Python, which needs no compiler, unless `DEV` names another device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

REQUIREMENTS = ["tinygrad==0.14.0", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    os.environ.setdefault("DEV", "PYTHON")
    import ml_dtypes
    from tinygrad import dtypes
    from tinygrad.nn.onnx import OnnxRunner

    def to_numpy(value: Any) -> Any:
        if value.dtype == dtypes.bfloat16:  # numpy() would make float32 of it
            return value.bitcast(dtypes.uint16).numpy().view(ml_dtypes.bfloat16)
        return value.numpy()

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        return [to_numpy(value) for value in OnnxRunner(str(model))(inputs).values()]

    return run

"""tinygrad, on its device that computes in Python, which needs no compiler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

REQUIREMENTS = ["tinygrad==0.14.0", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine."""
    os.environ["DEV"] = "PYTHON"
    from tinygrad.nn.onnx import OnnxRunner

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        return [value.numpy() for value in OnnxRunner(str(model))(inputs).values()]

    return run

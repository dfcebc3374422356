"""The reference evaluator of the onnx package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "onnx, reference evaluator"
REQUIREMENTS = ["onnx==1.23.2", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    from onnx.reference import ReferenceEvaluator

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        return list(ReferenceEvaluator(str(model)).run(None, inputs))

    return run

"""tract, by its Python package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

REQUIREMENTS = ["tract==0.23.9", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import tract

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        runnable = tract.onnx().load(str(model)).into_model().into_runnable()
        return [result.to_numpy() for result in runnable.run(list(inputs.values()))]

    return run

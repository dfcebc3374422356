"""onnx2torch, run by PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

REQUIREMENTS = ["onnx2torch==1.5.15", "torch==2.13.0", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine."""
    import numpy as np
    import onnx2torch
    import torch

    torch.set_num_threads(1)

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        module = onnx2torch.convert(str(model)).eval()
        with torch.no_grad():
            results = module(*[torch.from_numpy(np.array(value)) for value in inputs.values()])
        return [result.numpy() for result in (results if isinstance(results, tuple | list) else [results])]

    return run

"""onnx2torch, run by PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance.engines import Inputs, Run

REQUIREMENTS = ["onnx2torch==1.5.15", "torch==2.13.0", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    # torchvision's wheel does not load beside the torch that is compiled for CPUs only. onnx2torch needs torchvision
    # only for RoiAlign and NonMaxSuppression.
    sys.modules["torchvision"] = ModuleType("torchvision")
    sys.modules["torchvision.ops"] = ModuleType("torchvision.ops")
    sys.modules["torchvision.ops"].roi_align = None  # type: ignore[attr-defined]
    import ml_dtypes
    import numpy as np
    import onnx2torch
    import torch

    torch.set_num_threads(1)

    def to_torch(array: Any) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    def to_numpy(value: Any) -> Any:
        if value.dtype == torch.bfloat16:
            return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return value.numpy()

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        module = onnx2torch.convert(str(model)).eval()
        with torch.no_grad():
            results = module(*[to_torch(value) for value in inputs.values()])
        return [to_numpy(result) for result in (results if isinstance(results, tuple | list) else [results])]

    return run

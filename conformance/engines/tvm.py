"""TVM: Relax, compiled for the CPU by LLVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "TVM"
REQUIREMENTS = ["apache-tvm==0.27.0.post1", "onnx==1.23.2", "ml_dtypes==0.6.0", "numpy==2.4.6"]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        module = from_onnx(onnx.load(model), keep_params_in_input=False)
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        results = machine["main"](*[tvm.runtime.tensor(value) for value in inputs.values()])
        return [results.numpy()] if hasattr(results, "numpy") else [result.numpy() for result in results]

    return run

"""onnxruntime's DirectML provider on the real DirectML, as sliceport runs it after `sliceport directml install`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "onnxruntime, DirectML provider"
REQUIREMENTS = None


def version() -> str:
    """Return the version of the provider."""
    from sliceport.defects.engines import ONNXRUNTIME_DML, VERSIONS

    return VERSIONS[ONNXRUNTIME_DML][-1]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import onnx

    from onnx_ops.running.directml_provider import open_provider

    device = open_provider()

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        proto = onnx.load(model)
        return list(device.run_onnx(proto.SerializeToString(), inputs, names, fallback=True))

    return run

"""onnxruntime's OpenVINO provider, without a node on the CPU provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "onnxruntime, OpenVINO provider"
REQUIREMENTS = ["onnxruntime-openvino==1.24.1", "numpy==2.4.6"]
SPILLS = True
PRELOAD = ("onnxruntime",)


def open_engine() -> Run:
    """Load the engine."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        session = onnxruntime.InferenceSession(model, options, ["OpenVINOExecutionProvider"])
        return list(session.run(None, inputs))

    return run

"""onnxruntime-web, in node."""

from __future__ import annotations

from conformance.engines import Run
from conformance.javascript import open_node

TITLE = "onnxruntime-web"
REQUIREMENTS = ["numpy==2.4.6"]
NPM = ["onnxruntime-web@1.30.0"]


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    return open_node("onnxruntime-web")

"""Features of some platforms and of some versions of dependencies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx_models import parse
from sessions import run_unoptimized

if TYPE_CHECKING:
    from sliceport.device import Device

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="files, scripts, terminals, limits and signals of POSIX")
"""For tests of what Windows does not have, or says in other words."""

_STATUSES = {"SIGABRT": "0xc0000409", "SIGFPE": "0xc0000094"}


def ended_by(name: str) -> str:
    """Return the words for a process that ended by this signal."""
    return f"ended with exit code {_STATUSES[name]}" if sys.platform == "win32" else f"was ended by {name}"


def require_shader_model_6(device: Device) -> None:
    """Skip a test of models that need shader model 6, which Wine's Direct3D lacks."""
    if device.facts()["shader_model"] == "5.1":
        pytest.skip("Wine's Direct3D has shader model 5.1, for which DirectML cannot compile some operators")


def require_reshape_of_no_elements() -> None:
    """Skip a test of allowzero and a -1 on a tensor without elements, which onnxruntime 1.24 refuses to reshape."""
    body = "<int64[2] shape = {0, -1}> { s = Identity(shape) y = Reshape<allowzero = 1>(x, s) }"
    proto = parse(f"(float[0, 4] x) => (float[a, b] y) {body}", 17)
    if run_unoptimized(proto, np.zeros((0, 4), np.float32)) is None:
        pytest.skip("this version of onnxruntime takes no -1 in the shape of a tensor without elements")


CUSTOM_INFERENCE = hasattr(onnx.defs.OpSchema, "set_type_and_shape_inference_function")
"""Whether onnx takes a type and shape inference from Python: 1.18 does not."""
needs_custom_inference = pytest.mark.skipif(not CUSTOM_INFERENCE, reason="onnx 1.18 takes no inference from Python")


def assert_well_formed(proto: onnx.ModelProto) -> None:
    """Check a model in full, if its outputs have types: where onnx does not infer them, ours need not."""
    if CUSTOM_INFERENCE or all(value.type.WhichOneof("value") for value in proto.graph.output):
        onnx.checker.check_model(proto, full_check=True)

"""The core stands on the standard library alone, and importing the packages loads no framework."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = ("numpy", "onnx", "onnx_ir", "onnxscript", "ml_dtypes", "onnxruntime", "openvino", "rich")


@pytest.mark.parametrize(
    "module", ["sliceport", "sliceport.directml", "sliceport.slicing", "sliceport.slicing.node", "onnx_ops"]
)
def test_imports_nothing_else(module):
    code = f"import sys, {module}; print([name for name in {FRAMEWORKS!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

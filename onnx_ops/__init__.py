"""sliceport: slicing operators carried between ONNX, OpenVINO and DirectML, exactly.

Importing this package loads neither onnx, NumPy nor any runtime; what is used is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_ops.dml.program import Program
    from onnx_ops.lowering import lower

__version__ = "0.1.0"
__all__ = ["Program", "lower"]

_HOMES = {"Program": "onnx_ops.dml.program", "lower": "onnx_ops.lowering"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'onnx_ops' has no attribute {name!r}")

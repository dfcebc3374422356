"""ONNX: slicing nodes lowered to DirectML operators, and passes that rewrite the slicing of a model.

Importing this package loads neither onnx, NumPy nor any runtime; what is used is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sliceport import __version__

if TYPE_CHECKING:
    from onnx_ops.lowering import lower
    from sliceport.directml.program import Program

__all__ = ["Program", "__version__", "lower"]

_HOMES = {"Program": "sliceport.directml.program", "lower": "onnx_ops.lowering"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'onnx_ops' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

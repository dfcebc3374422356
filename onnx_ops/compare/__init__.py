"""Executors side by side: what each computes for the slicing nodes of a model, compared bit for bit.

Importing this package loads none of it: worker processes import one of its modules and start quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_ops.compare.run import DEFAULT_EXECUTORS, compare

__all__ = ["DEFAULT_EXECUTORS", "compare"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("onnx_ops.compare.run"), name)
    raise AttributeError(f"module 'onnx_ops.compare' has no attribute {name!r}")

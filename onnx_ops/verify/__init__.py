"""Executors side by side: what each computes for the slicing nodes of a model, compared bit for bit.

Importing this package loads none of it: worker processes import one of its modules and start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceport.lazy import lazy

if TYPE_CHECKING:
    from onnx_ops.verify.run import DEFAULT_EXECUTORS, compare

__all__ = ["DEFAULT_EXECUTORS", "compare"]


if not TYPE_CHECKING:  # or any name would pass for one
    __getattr__, __dir__ = lazy(__name__, dict.fromkeys(__all__, "onnx_ops.verify.run"))

"""ONNX: slicing nodes lowered to DirectML operators, and passes that rewrite the slicing of a model.

Importing this package loads neither onnx, NumPy nor any runtime; a package is imported when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceport.lazy import lazy_names
from sliceport.version import __version__

if TYPE_CHECKING:
    from sliceport.directml.program import Program

__all__ = ["Program", "__version__"]

if not TYPE_CHECKING:  # a type checker that saw `__getattr__` would accept any name
    __getattr__, __dir__ = lazy_names(__name__, {"Program": "sliceport.directml.program"}, defined=("__version__",))

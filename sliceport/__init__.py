"""sliceport converts slicing operators between ONNX, OpenVINO and DirectML exactly, and verifies it bit for bit.

    >>> import sliceport
    >>> sliceport.lower("model.onnx").summary                # doctest: +SKIP
    {'total': 3, 'lowered': 2, 'alias': 1, 'empty': 0, 'folded': 0, 'refused': 0}

Importing it loads no framework; what a function needs is loaded when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sliceport.api import compare, harden, lower, rewrite
    from sliceport.errors import (
        DynamicSlice,
        InvalidDescriptor,
        InvalidSlice,
        MissingExtra,
        ModelError,
        OutputError,
        Refusal,
        SliceportError,
        UnsupportedSlice,
        UsageError,
    )

__version__ = "0.1.0"
__all__ = [
    "DynamicSlice",
    "InvalidDescriptor",
    "InvalidSlice",
    "MissingExtra",
    "ModelError",
    "OutputError",
    "Refusal",
    "SliceportError",
    "UnsupportedSlice",
    "UsageError",
    "__version__",
    "compare",
    "harden",
    "lower",
    "rewrite",
]

_FUNCTIONS = ("compare", "harden", "lower", "rewrite")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("sliceport.api" if name in _FUNCTIONS else "sliceport.errors"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

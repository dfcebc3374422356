"""sliceport converts slicing operators between ONNX, OpenVINO and DirectML exactly, and verifies it bit for bit.

    >>> import sliceport
    >>> sliceport.lower("model.onnx").summary                # doctest: +SKIP
    {'total': 3, 'lowered': 2, 'alias': 1, 'empty': 0, 'folded': 0, 'refused': 0}

Importing the package loads no framework. A function imports the packages that it needs when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceport.lazy import lazy_names

if TYPE_CHECKING:
    from sliceport.api import check, compare, harden, lower, rewrite
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
    from sliceport.search.diff import diff
    from sliceport.version import __version__

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
    "check",
    "compare",
    "diff",
    "harden",
    "lower",
    "rewrite",
]


if not TYPE_CHECKING:  # a type checker that saw `__getattr__` would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        dict.fromkeys(("check", "compare", "harden", "lower", "rewrite"), "sliceport.api")
        | {"diff": "sliceport.search.diff", "__version__": "sliceport.version"}
        | {name: "sliceport.errors" for name in __all__ if name[0].isupper()},
    )

"""What third-party code says is wrong: onnx-ir wraps its errors in several others."""

from __future__ import annotations

from sliceport.wording import shorten


def describe_cause(error: BaseException) -> str:
    """What the first of a chain of errors says, on one line without its full stop; its type where it says nothing."""
    while error.__cause__ is not None:
        error = error.__cause__
    return shorten(str(error)).rstrip(".") or type(error).__name__

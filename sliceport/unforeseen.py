"""Errors that nothing foresaw, as a sentence: whatever a library raises is about the file that it was given."""

from __future__ import annotations

from sliceport.wording import shorten


def describe_unforeseen(error: Exception, hint: str = "") -> str:
    """A sentence about an error of a library, to stand after the name of the model's file.

    Args:
        error: The error.
        hint: The end of the sentence where the error says little: what to do to learn more.
    """
    if isinstance(error, MemoryError | RecursionError):
        kind = "memory" if isinstance(error, MemoryError) else "nesting depth"
        return f"the model exceeds the {kind} of this machine."
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    said = shorten(str(cause))
    return f"this cannot be done with it ({': '.join(filter(None, (type(cause).__name__, said)))}){hint}."

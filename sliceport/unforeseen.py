"""Errors that no code anticipates, as a sentence: internal errors, and those of libraries."""

from __future__ import annotations

from sliceport.wording import shorten


def describe_unforeseen(error: Exception, advice: str = "please report it with this model") -> str:
    """Describe an error in a sentence that can follow the name of the model's file; `advice` ends the sentence."""
    if isinstance(error, MemoryError | RecursionError):
        kind = "memory" if isinstance(error, MemoryError) else "nesting depth"
        return f"the model exceeds the {kind} of this machine."
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    reason = ": ".join(filter(None, (type(cause).__name__, shorten(str(cause)))))
    return f"internal error ({reason}); {advice}."

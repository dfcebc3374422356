"""The text of OpenVINO's errors, as sentences."""

from __future__ import annotations

from sliceport.wording import shorten


def last_sentence(error: Exception) -> str:
    """Return the last line of an error of OpenVINO as a sentence.

    The lines before it name places in OpenVINO's sources, and those after "At:" places in Python.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines[: lines.index("At:") if "At:" in lines else None] if line]
    text = lines[-1] if lines else type(error).__name__
    if text in ("stoll", "stoi", "stol", "stoul", "stoull"):  # all that the C++ library says of a bad number
        text = "a number in it is not an integer, or too large"
    return f"{shorten(text.removeprefix('InvalidSlice: ').strip('-.! '))}."

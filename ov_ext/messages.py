"""What OpenVINO says, as sentences."""

from __future__ import annotations

from sliceport.wording import shorten


def last_words(error: Exception) -> str:
    """What OpenVINO says last, as a sentence; before are places in its sources, after "At:" those in Python."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines[: lines.index("At:") if "At:" in lines else None] if line]
    said = lines[-1] if lines else type(error).__name__
    if said in ("stoll", "stoi", "stol", "stoul", "stoull"):
        said = "a number in it is none, or too large"
    return f"{shorten(said.removeprefix('InvalidSlice: ').strip('-.! '))}."

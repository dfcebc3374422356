"""The text of OpenVINO's errors, as sentences."""

from __future__ import annotations

import re
from itertools import takewhile

from sliceport.wording import shorten


def last_sentence(error: Exception) -> str:
    """Return the last line of an error of OpenVINO as a sentence. Shorten a long line.

    Earlier lines name places in OpenVINO's sources. Lines from "At:" on name places in Python and are ignored.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in takewhile(lambda line: line != "At:", lines) if line]
    text = lines[-1] if lines else type(error).__name__
    if text in ("stoll", "stoi", "stol", "stoul", "stoull"):  # the C++ library's whole message for a bad number
        text = "a number in the model is not an integer, or is too large"
    # OpenVINO puts the class before an error of Python, and several dashes or marks around some sentences.
    return f"{shorten(re.sub(r'^[-.! ]{2,}|[-.! ]+$', '', text.removeprefix('InvalidSlice: ')))}."

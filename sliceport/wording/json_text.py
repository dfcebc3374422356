"""JSON as text: ASCII, so that any encoding can carry it, and without NaN and infinities, which JSON lacks."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_INTEGER_ARRAY = re.compile(r"\[\n\s+(-?\d+(?:,\n\s+-?\d+)*)\n\s+\]")


def to_text(data: Any, *, flat: bool = False) -> str:
    """Format data as indented JSON; NaN and infinities become null. If `flat`, an array of integers is on one line."""
    text = json.dumps(replace_non_finite(data), indent=2, allow_nan=False)
    if not flat:
        return text
    return _INTEGER_ARRAY.sub(lambda match: f"[{', '.join(part.strip() for part in match[1].split(','))}]", text)


def replace_non_finite(data: Any) -> Any:
    """Return JSON values with None instead of NaN and infinities, and lists instead of tuples."""
    if isinstance(data, dict):
        return {key: replace_non_finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [replace_non_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data

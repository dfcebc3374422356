"""The folder of the user's cache in which everything that is installed or built later lies."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "sliceport"

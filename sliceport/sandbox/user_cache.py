"""The folder in the user's cache for everything that sliceport installs or builds."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return the folder for everything that sliceport installs or builds for a user. It may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "sliceport"

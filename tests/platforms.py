"""What only some platforms have."""

from __future__ import annotations

import sys

import pytest

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="files, terminals, limits and signals of POSIX")
"""For tests of what Windows does not have, or says in other words."""

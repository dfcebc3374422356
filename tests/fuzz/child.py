"""Checks of cases in a child of the sandbox, because a case may crash or hang."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Sequence
from typing import Any

from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildDied, ChildTimedOut

from .modules import Case

TIMEOUT = 120.0
"""Seconds for one case. A case that takes longer hangs, on any machine and under any load."""


def check_many(module: str, cases: Sequence[Case]) -> list[str | None]:
    """Return the complaint about each case, or None for a case that comes out right."""
    many = getattr(importlib.import_module(module), "check_many", None)
    return list(many(cases)) if many is not None else [_check_in_child(module, case) for case in cases]


def _check_in_child(module: str, case: Case) -> str | None:
    try:
        # Isolated, so that a crash that the product handles is not the end of the child.
        complaint: str | None = supervisor.call(complain, module, case, timeout=TIMEOUT, is_isolated=True)
    except (ChildTimedOut, ChildDied) as error:
        return f"its process {error}"
    return complaint


def complain(module: str, case: Case) -> str | None:
    """Check a case. An exception is a complaint, too."""
    fuzzer: Any = importlib.import_module(module)
    try:
        complaint: str | None = fuzzer.check(case)
    except Exception:
        return traceback.format_exc()
    return complaint

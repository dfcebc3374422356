"""Checks of cases in a child of the sandbox, because a case may crash or hang."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildDied, ChildTimedOut

from .modules import Case, Fuzzer, load

TIMEOUT = 120.0
"""Seconds for one case. A case that takes longer hangs, on any machine and under any load."""


def check_many(fuzzer: Fuzzer, cases: Sequence[Case]) -> list[str | None]:
    """Return the complaint about each case, or None for a case that comes out right."""
    many = getattr(fuzzer, "check_many", None)
    return list(many(cases)) if many is not None else [_check_in_child(fuzzer.NAME, case) for case in cases]


def check(fuzzer: Fuzzer, case: Case) -> str | None:
    """Return the complaint about one case, if any."""
    return check_many(fuzzer, [case])[0]


def _check_in_child(name: str, case: Case) -> str | None:
    try:
        # Isolated, so that a crash that the product handles is not the end of the child.
        complaint: str | None = supervisor.call(complain, name, case, timeout=TIMEOUT, is_isolated=True)
    except ChildTimedOut as error:
        return f"hangs: it {error}"
    except ChildDied as error:
        return f"its process {error}"
    return complaint


def complain(name: str, case: Case) -> str | None:
    """Check a case. An exception is a complaint, too."""
    try:
        return load(name).check(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:500]
        return f"raises {type(error).__name__} in {where.name}: {text} ({where.filename}:{where.lineno})"

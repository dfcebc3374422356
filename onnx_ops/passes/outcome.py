"""Nodes that passes leave as they are, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.errors import DynamicSlice, InvalidSlice

_LONGEST = 1000


class Skip(Exception):
    """Raised for a node that nearly matches a rule; its text is the reason, without a full stop."""


SKIPS = (Skip, InvalidSlice, DynamicSlice)
"""Errors whose text is the reason why a node stays as it is. Whatever reads a node for a pass may raise them."""


@dataclass(frozen=True)
class Skipped:
    """A node that a pass did not rewrite although it nearly matched.

    Attributes:
        node: Its name.
        op: Its operator.
        reason: Why it was not rewritten; cut off where it is long, as the names in it may be of megabytes.
    """

    node: str
    op: str
    reason: str

    def __post_init__(self) -> None:
        if len(self.reason) > _LONGEST:
            object.__setattr__(self, "reason", f"{self.reason[:_LONGEST]}…")

"""Outcomes of looking at a node: it is rewritten, has defects that cannot be fixed, or is skipped for a reason."""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.defects.defect import Defect

_LONGEST = 1000


@dataclass(frozen=True)
class Rewritten:
    """A node was replaced or changed.

    Attributes:
        replacement: The operators that do its work now, or `sliceport.hardening.NOTHING`.
        defects: The defects of engines that it had.
    """

    replacement: str
    defects: tuple[Defect, ...] = ()


@dataclass(frozen=True)
class Unfixable:
    """A node has defects that no replacement avoids; it stays.

    Attributes:
        defects: The defects of engines that it has.
    """

    defects: tuple[Defect, ...]


class Skip(Exception):
    """Raised for a node that nearly matches a rule; its text is the reason, without a full stop."""


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

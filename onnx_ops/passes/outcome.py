"""What comes of looking at a node: it is rewritten, has defects that cannot be fixed, or is skipped for a reason."""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.defects.defect import Defect

NOTHING = "nothing"
"""What replaces a node that is removed."""


@dataclass(frozen=True)
class Rewritten:
    """A node was replaced or changed.

    Attributes:
        replacement: The operators that do its work now, or `NOTHING`.
        defects: What an engine did wrong with it.
    """

    replacement: str
    defects: tuple[Defect, ...] = ()


@dataclass(frozen=True)
class Unfixable:
    """A node has defects that no replacement avoids; it stays.

    Attributes:
        defects: What an engine does wrong with it.
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
        reason: Why it was not rewritten.
    """

    node: str
    op: str
    reason: str

"""Nodes that passes leave as they are, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.errors import DynamicSlice, InvalidSlice


class Skip(Exception):
    """Error for a node that nearly matches a rule. Its text is the reason, without a full stop."""


SKIPS = (Skip, InvalidSlice, DynamicSlice)
"""Errors whose text is the reason why a node stays as it is. Functions that read a node for a pass may raise them."""


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

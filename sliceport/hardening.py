"""The report of `sliceport harden`: the defects that were found in a model, and what was done about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sliceport.defects.defect import Defect


@dataclass(frozen=True)
class Violation:
    """What a node does against its specification, so that nothing is right.

    Attributes:
        reason: The rule and what was found, as part of a sentence.
    """

    id: ClassVar[str] = "against the specification"
    is_contested: ClassVar[bool] = False
    reason: str


@dataclass(frozen=True)
class Change:
    """What was done with one node.

    Attributes:
        node: Its name.
        op: Its operator.
        replacement: The operators that do its work now; None where no replacement is right, and the node stays.
        defects: What the engine does wrong with it, or what is wrong with it.
    """

    node: str
    op: str
    replacement: str | None
    defects: tuple[Defect | Violation, ...]

    @property
    def needs_extension(self) -> bool:
        """Whether the model now needs `ov_ext.register`."""
        return self.replacement is not None and self.replacement.startswith("ov_ext.")

    def to_json(self) -> dict[str, Any]:
        """The change as JSON."""
        return {
            "node": self.node,
            "op": self.op,
            "replacement": self.replacement,
            "defects": [{"id": defect.id, "reason": defect.reason} for defect in self.defects],
        }


@dataclass(frozen=True)
class Hardening:
    """What was done with a model.

    Attributes:
        target: The engine that it was done for.
        version: The version of the engine whose defects are known.
        nodes: How many nodes were looked at.
        changes: One for each node that the engine computes wrongly or refuses.
    """

    target: str
    version: str
    nodes: int
    changes: tuple[Change, ...]

    @property
    def needs_extension(self) -> bool:
        """Whether the model now needs `ov_ext.register`."""
        return any(change.needs_extension for change in self.changes)

    @property
    def is_complete(self) -> bool:
        """Whether every node with a defect was rewritten."""
        return all(change.replacement is not None for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "target": self.target,
            "version": self.version,
            "nodes": self.nodes,
            "needs_extension": self.needs_extension,
            "changes": [change.to_json() for change in self.changes],
        }

    def text(self, *, verbose: bool = False) -> str:  # noqa: ARG002 - all reports have it
        """The report for people."""
        return str(self)

    def __str__(self) -> str:
        lines = []
        for change in self.changes:
            if change.replacement is not None:
                done = f"is now {change.replacement}"
            elif any(defect.is_contested for defect in change.defects):
                done = "is left as it is"
            else:
                done = "is not fixed, as no replacement is known to be right"
            reasons = "; ".join(defect.reason for defect in change.defects)
            lines.append(f"{change.op} {change.node!r} {done}: {reasons}")
        unfixed = sum(change.replacement is None for change in self.changes)
        count = f"{self.nodes} slicing node" + ("" if self.nodes == 1 else "s")
        ending = "; the model needs ov_ext.register now" if self.needs_extension else ""
        lines.append(f"{count}, {len(self.changes) - unfixed} rewritten, {unfixed} not fixed{ending}")
        return "\n".join(lines)

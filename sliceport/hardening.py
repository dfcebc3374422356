"""The report of `sliceport harden`: the nodes with defects in a model, and the change to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sliceport.defects.defect import Defect


@dataclass(frozen=True)
class Violation:
    """A broken rule of a node's specification, so that no result of the node is right.

    Attributes:
        reason: The rule and the value that breaks it, as part of a sentence.
    """

    id: ClassVar[str] = "against the specification"
    is_contested: ClassVar[bool] = False
    reason: str


@dataclass(frozen=True)
class Change:
    """The change to one node.

    Attributes:
        node: Its name.
        op: Its operator.
        replacement: The operators that replace it; None if no replacement is right and the node stays.
        defects: The defects of the engine that it triggers, or the rules that it breaks.
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
        """Return the change as JSON values."""
        return {
            "node": self.node,
            "op": self.op,
            "replacement": self.replacement,
            "defects": [{"id": defect.id, "reason": defect.reason} for defect in self.defects],
        }


@dataclass(frozen=True)
class Hardening:
    """The changes to a model.

    Attributes:
        target: The engine that the model was hardened for.
        version: The version of the engine whose defects are known.
        nodes: The number of slicing nodes in the model.
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
        """Return the report as JSON values."""
        return {
            "target": self.target,
            "version": self.version,
            "nodes": self.nodes,
            "needs_extension": self.needs_extension,
            "changes": [change.to_json() for change in self.changes],
        }

    def text(self, *, verbose: bool = False) -> str:  # noqa: ARG002 - all reports have it
        """Format the report for people."""
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

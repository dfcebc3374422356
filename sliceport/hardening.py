"""What a hardening found wrong and did about it: the report of `sliceport harden`, whatever the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Defect:
    """One thing that an engine does wrong.

    Attributes:
        id: Its name, by which the tests show it.
        reason: What the engine does, for people.
        is_disputed: Whether another engine does something else that is not right either, so that the node must stay.
    """

    id: str
    reason: str
    is_disputed: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Change:
    """What was done with one node.

    Attributes:
        node: Its name.
        op: Its operator.
        form: What stands in its place; `None` where nothing helps, and the node is as it was.
        defects: What the engine does wrong with it.
    """

    node: str
    op: str
    form: str | None
    defects: tuple[Defect, ...]

    @property
    def needs_extension(self) -> bool:
        """Whether the model now needs `ov_ext.register`."""
        return self.form is not None and self.form.startswith("ov_ext.")

    def to_json(self) -> dict[str, Any]:
        """The change as JSON."""
        return {
            "node": self.node,
            "op": self.op,
            "form": self.form,
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
        """Whether everything that was found wrong is right now."""
        return all(change.form is not None for change in self.changes)

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
            done = f"is now {change.form}" if change.form else "is left as it is"
            if change.form is None and not any(defect.is_disputed for defect in change.defects):
                done += ": no form is computed right"
            reasons = "; ".join(defect.reason for defect in change.defects)
            lines.append(f"{change.op} {change.node!r} {done}: {reasons}")
        left = sum(change.form is None for change in self.changes)
        count = f"{self.nodes} slicing node" + ("" if self.nodes == 1 else "s")
        ending = "; the model needs ov_ext.register now" if self.needs_extension else ""
        lines.append(f"{count}, {len(self.changes) - left} rewritten, {left} left wrong{ending}")
        return "\n".join(lines)

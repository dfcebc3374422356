"""The report of `sliceport harden`: the nodes with defects in a model, and the change to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sliceport.defects.defect import Defect
from sliceport.wording import count_of, format_findings

NOTHING = "nothing"
"""The replacement of a node that is removed."""


@dataclass(frozen=True)
class InvalidNode:
    """A node that breaks its operator's specification. The node is not changed, because no result would be right.

    Attributes:
        node: Its name.
        op: Its operator.
        reason: The rule and the value that breaks it, without a full stop.
    """

    node: str
    op: str
    reason: str

    def to_finding(self) -> tuple[str, str, str]:
        """Return the operator, the node and the reason, for `format_findings`."""
        return self.op, self.node, f"not valid: {self.reason}"

    def to_json(self) -> dict[str, str]:
        """Return the node as JSON values."""
        return asdict(self)


def format_invalid_count(nodes: Sequence[InvalidNode]) -> str:
    """Return the end of a line of counts, such as `, 2 not valid`. Return an empty string if there are no nodes."""
    return f", {len(nodes)} not valid" if nodes else ""


@dataclass(frozen=True)
class Change:
    """The change to one node.

    Attributes:
        node: Its name.
        op: Its operator.
        replacement: The operators that replace it, or `NOTHING`; None if no replacement is right and the node stays.
        defects: The defects of the engine that it triggers.
        obstacle: The reason why the node has no replacement; empty if no replacement is known to be right.
        origin: An object that all changes to one node share, because several nodes may have one name.
    """

    node: str
    op: str
    replacement: str | None
    defects: tuple[Defect, ...]
    obstacle: str = ""
    origin: object = field(default=None, compare=False, repr=False)

    @property
    def is_fragile(self) -> bool:
        """Whether the node is right for the sizes that are fixed now, and wrong only for others."""
        return bool(self.defects) and all(defect.kind == "fragile" for defect in self.defects)

    @property
    def outcome(self) -> str:
        """The outcome for the node, such as `removed` or `now Gather`."""
        if self.replacement is None:
            is_contested = any(defect.is_contested for defect in self.defects)
            reason = self.obstacle or "no replacement is known to be right"
            return "left as it is" if is_contested else f"not fixed, because {reason}"
        if self.replacement == NOTHING:
            return "removed"
        return f"now {'another ' if self.replacement == self.op else ''}{self.replacement}"

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return {
            "node": self.node,
            "op": self.op,
            "replacement": self.replacement,
            "defects": [{"id": defect.id, "reason": defect.reason} for defect in self.defects],
            "obstacle": self.obstacle,
            "is_fragile": self.is_fragile,
        }


def state_reason(target: str, defects: Sequence[Defect] = ()) -> str:
    """Return the reasons of `defects`. Without defects, the reason is that a node is not in the form for `target`."""
    return "; ".join(defect.reason for defect in defects) or f"not in the form for {target}"


@dataclass(frozen=True)
class Hardening:
    """The changes to a model.

    Attributes:
        target: The engine that the model was hardened for.
        version: The version of the engine that the report is about; several are separated by commas.
        nodes: The number of slicing nodes in the model.
        changes: One for each node that the engine computes wrongly or refuses, or that is not in the form for it.
        invalid: The nodes that break their specification.
        notes: Sentences about the preparation of the model.
        is_form: Whether nodes were rewritten to reach the form for `target`, rather than because of known defects.
        is_prepared: Whether the model was changed before its nodes were rewritten, as `notes` say.
        extension: The function to call before the engine can run operators that the changes add, or an empty string.
    """

    target: str
    version: str
    nodes: int
    changes: tuple[Change, ...]
    invalid: tuple[InvalidNode, ...] = ()
    notes: tuple[str, ...] = ()
    is_form: bool = False
    is_prepared: bool = False
    extension: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether the model was changed at all."""
        return self.is_prepared or any(change.replacement is not None for change in self.changes)

    @property
    def is_complete(self) -> bool:
        """Whether every node is valid, and every node in `changes` was rewritten or removed, or is only fragile."""
        return not self.invalid and all(change.replacement is not None or change.is_fragile for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "target": self.target,
            "version": self.version,
            "nodes": self.nodes,
            "needs_extension": bool(self.extension),
            "changes": [change.to_json() for change in self.changes],
            "invalid": [node.to_json() for node in self.invalid],
            "notes": list(self.notes),
        }

    def text(self, *, verbose: bool = False) -> str:
        """Format the report for people; `verbose` also lists the nodes below each line about several nodes."""
        changes = [
            (change.op, change.node, f"{state_reason(self.target, change.defects)}: {change.outcome}")
            for change in self.changes
        ]
        lines = format_findings([*changes, *(node.to_finding() for node in self.invalid)], verbose=verbose)
        return "\n".join([*self.notes, *lines, self.summary])

    @property
    def summary(self) -> str:
        """The numbers of nodes by outcome, on one line."""
        rewritten = sum(change.replacement is not None for change in self.changes)
        version = self.version.partition("-")[0]  # OpenVINO appends its commit after a hyphen
        reason = state_reason(self.target) if self.is_form else f"with a defect of {self.target} {version}"
        summary = f"{count_of(len(self.changes), 'node')} {reason}"
        if self.changes:
            summary += f": {rewritten} rewritten, {len(self.changes) - rewritten} not fixed"
        ending = f"; the model needs {self.extension} now" if self.extension else ""
        return f"{summary}{format_invalid_count(self.invalid)}{ending}"

    def __str__(self) -> str:
        return self.text()

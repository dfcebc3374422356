"""The passes that rewrite slicing into less of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_ops.errors import UsageError
from onnx_ops.hardening import Change
from onnx_ops.model.nodes import SLICING
from onnx_ops.passes.base import NodePass, nodes_of
from onnx_ops.passes.compose_slices import ComposeSlicesPass
from onnx_ops.passes.merge_equal_slices import MergeEqualSlicesPass
from onnx_ops.passes.remove_identity_slices import RemoveIdentitySlicesPass
from onnx_ops.passes.split_to_slice import SplitToSlicePass

PASSES: dict[str, type[NodePass]] = {
    "split": SplitToSlicePass,
    "compose": ComposeSlicesPass,
    "identity": RemoveIdentitySlicesPass,
    "merge": MergeEqualSlicesPass,
}
"""By the names that `sliceport rewrite --passes` takes, in the order in which they run."""


@dataclass(frozen=True)
class Rewriting:
    """What was rewritten.

    Attributes:
        before: Slicing nodes before.
        after: Slicing nodes after.
        changes: By pass, what it did.
    """

    before: int
    after: int
    changes: dict[str, tuple[Change, ...]]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        listed = {
            name: [{"node": change.node, "op": change.op, "form": change.form} for change in changes]
            for name, changes in self.changes.items()
        }
        return {"nodes_before": self.before, "nodes_after": self.after, "passes": listed}

    def __str__(self) -> str:
        lines = [
            f"{name}: {change.op} {change.node!r} is now {change.form}"
            for name, changes in self.changes.items()
            for change in changes
        ]
        return "\n".join([*lines, f"slicing nodes: {self.before} before, {self.after} after"])


def rewrite(model: ir.Model, passes: Sequence[str] = tuple(PASSES)) -> Rewriting:
    """Run passes over a model.

    Args:
        model: The model; it is changed.
        passes: Names of `PASSES`.

    Raises:
        UsageError: A pass is not known.
    """
    for name in passes:
        if name not in PASSES:
            raise UsageError(f"pass {name!r} is not known; known are {', '.join(PASSES)}.")
    before = _count(model)
    changes: dict[str, tuple[Change, ...]] = {}
    for name, kind in PASSES.items():
        if name in passes:
            done = kind()
            done(model)
            changes[name] = tuple(done.changes)
    return Rewriting(before, _count(model), changes)


def _count(model: ir.Model) -> int:
    return sum(1 for kind in SLICING for _ in nodes_of(model, kind))

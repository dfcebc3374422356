"""The passes that rewrite slicing into less of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_ops.defaults import defaults_aside
from onnx_ops.nodes import SLICING, constant, contested, is_strided_slice
from onnx_ops.passes.base import Left, SlicingPass, all_nodes, name_of, nodes_of
from onnx_ops.passes.compose_slices import ComposeSlicesPass
from onnx_ops.passes.expand_strided_slice import ExpandStridedSlicePass
from onnx_ops.passes.fold_slices import FoldSlicesPass
from onnx_ops.passes.gather_to_slice import GatherToSlicePass
from onnx_ops.passes.merge_equal_slices import MergeEqualSlicesPass
from onnx_ops.passes.move_slices_up import MoveSlicesUpPass
from onnx_ops.passes.remove_identity_slices import RemoveIdentitySlicesPass
from onnx_ops.passes.scalar_gather_to_slice import ScalarGatherToSlicePass
from onnx_ops.passes.shorten_chains import ShortenChainsPass
from onnx_ops.passes.siblings_to_split import SiblingsToSplitPass
from onnx_ops.passes.slice_of_concat import SliceOfConcatPass
from onnx_ops.passes.slice_of_split import SliceOfSplitPass
from onnx_ops.passes.split_of_part import SplitOfPartPass
from onnx_ops.passes.split_to_slice import SplitToSlicePass
from onnx_ops.passes.value_info import Knowledge, infer, unmark
from sliceport.errors import unknown_name
from sliceport.hardening import Change

PASSES: dict[str, type[SlicingPass]] = {
    "strided": ExpandStridedSlicePass,
    "fold": FoldSlicesPass,
    "merge": MergeEqualSlicesPass,
    "gather": GatherToSlicePass,
    "concat": SliceOfConcatPass,
    "compose": ComposeSlicesPass,
    "part": SliceOfSplitPass,
    "chain": ShortenChainsPass,
    "identity": RemoveIdentitySlicesPass,
    "split": SplitToSlicePass,
    "siblings": SiblingsToSplitPass,
    "nested": SplitOfPartPass,
    "scalar": ScalarGatherToSlicePass,
    "up": MoveSlicesUpPass,
}
"""By the names that `sliceport rewrite --passes` takes, in the order in which they run."""
BY_DEFAULT = tuple(name for name in PASSES if name not in ("scalar", "up"))


@dataclass(frozen=True)
class Rewriting:
    """What was rewritten.

    Attributes:
        before: Slicing nodes before: Slice, Split, and Gather by constant indices.
        after: Slicing nodes after.
        changes: By pass, what it did.
        left: By pass, what it did not do in the end, and why.
        contested: The nodes that are left because engines disagree about them, and which does what.
    """

    before: int
    after: int
    changes: dict[str, tuple[Change, ...]]
    left: dict[str, tuple[Left, ...]]
    contested: tuple[Left, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True: slicing that is left as it is was not wrong."""
        return True

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        passes = {
            name: {
                "changes": [{"node": done.node, "op": done.op, "form": done.form} for done in changes],
                "not_applied": [{"node": left.node, "op": left.op, "reason": left.reason} for left in self.left[name]],
            }
            for name, changes in self.changes.items()
        }
        contested = [{"node": left.node, "op": left.op, "reason": left.reason} for left in self.contested]
        return {"nodes_before": self.before, "nodes_after": self.after, "passes": passes, "contested": contested}

    def text(self, *, verbose: bool = False) -> str:
        """The report for people; `verbose` adds what was not applied."""
        lines = [
            f"{name}: {change.op} {change.node!r} is now {change.form}"
            for name, changes in self.changes.items()
            for change in changes
        ]
        lines += [f"{left.op} {left.node!r} is left as it is: {left.reason}" for left in self.contested]
        if verbose:
            lines += [
                f"{name}: {left.op} {left.node!r} stays: {left.reason}"
                for name, all_left in self.left.items()
                for left in all_left
            ]
        return "\n".join([*lines, f"slicing nodes: {self.before} before, {self.after} after"])


def rewrite(model: ir.Model, passes: Sequence[str] = BY_DEFAULT) -> Rewriting:
    """Run passes over a model, again and again until none of them finds anything more.

    Args:
        model: The model; it is changed.
        passes: Names of `PASSES`.

    Raises:
        UsageError: A pass is not known.
    """
    for name in passes:
        if name not in PASSES:
            raise unknown_name("pass", name, list(PASSES))
    with defaults_aside(model):
        report = _rewrite(model, passes)
        unmark(model)
        return report


def _rewrite(model: ir.Model, passes: Sequence[str]) -> Rewriting:
    before = _count(model)
    known = infer(model, folding=True)
    chosen = {name: kind() for name, kind in PASSES.items() if name in passes}
    if "chain" in chosen and "scalar" in chosen:
        chosen["chain"] = ShortenChainsPass(gathers=False)
    changes: dict[str, tuple[Change, ...]] = dict.fromkeys(chosen, ())
    is_stale, modified = False, True
    while modified or is_stale:
        if not modified:  # the end, by what is known; of what the nodes have become more may follow
            known, is_stale = infer(model, folding=True), False
        modified = False
        for name, done in chosen.items():
            done.share(known)
            if done(model).modified:
                modified = is_stale = True
                if name == "fold":  # shapes follow from what is constant now
                    known = infer(model, folding=True)
            changes[name] += tuple(done.changes)
    left = {name: tuple(done.left) for name, done in chosen.items()}
    return Rewriting(before, _count(model), changes, left, _contested(model, known))


def _contested(model: ir.Model, known: Knowledge) -> tuple[Left, ...]:
    """The nodes that engines read differently."""
    found = []
    for node, opset in nodes_of(model, *SLICING):
        data = node.inputs[0] if node.inputs else None
        disagreement = contested(node, opset, None if data is None else known.sizes.get(data))
        if disagreement is not None:
            found.append(Left(name_of(node), node.op_type, disagreement.reason))
    return tuple(found)


def _count(model: ir.Model) -> int:
    slicing = sum(1 for _ in nodes_of(model, *SLICING)) + sum(is_strided_slice(node) for node, _ in all_nodes(model))
    return slicing + sum(
        len(node.inputs) > 1 and node.inputs[1] is not None and constant(node.inputs[1]) is not None
        for node, _ in nodes_of(model, "Gather")
    )


class RewriteSlicingPass(ir.passes.InPlacePass):
    """`rewrite` as one pass: in its order whatever stands beside it, until nothing more is found.

    Attributes:
        report: What was rewritten when it last ran.
    """

    def __init__(self, names: Sequence[str] = BY_DEFAULT) -> None:
        super().__init__()
        self.names = tuple(names)
        self.report: Rewriting | None = None

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run it; `modified` is true exactly when something changed."""
        self.report = rewrite(model, self.names)
        return ir.passes.PassResult(model, modified=any(self.report.changes.values()))


ALL = (RewriteSlicingPass(),)
"""What `ir.passes.Sequential` takes for all passes that run by default."""

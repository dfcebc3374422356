"""Simplification of whole models by the passes and by onnxscript's optimizer, in turn."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from onnx_ops.model.defaults import pop_defaults, put_defaults
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.contested_nodes import unmark
from onnx_ops.passes.rewrite.run import BY_DEFAULT, Rewriting, rewrite, run_passes
from onnx_ops.passes.simplify.fold_constants import FoldConstantsPass
from onnx_ops.passes.simplify.neutral_operands import RemoveNeutralOperandsPass
from onnx_ops.passes.simplify.optimize import count_nodes, optimize
from sliceport.errors import MissingExtra, ModelError
from sliceport.sandbox import progress


@dataclass(frozen=True)
class Simplification(Rewriting):
    """Report of a simplification.

    Attributes:
        all_before: The number of all nodes before, except Constants. Nodes of functions count once.
        all_after: The number of all nodes after, counted in the same way.
        failure: The reason why onnxscript's optimizer was left out, or empty.
        is_simplified: Whether constants were folded, neutral operations removed, or the result of the optimizer kept.
    """

    all_before: int = 0
    all_after: int = 0
    failure: str = ""
    is_simplified: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the model was changed at all."""
        return super().is_changed or self.is_simplified

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        counts = {"all_nodes_before": self.all_before, "all_nodes_after": self.all_after}
        return {**super().to_json(), **counts, "optimizer_failure": self.failure or None}

    def text(self, *, verbose: bool = False) -> str:
        """Format the report for people; see `Rewriting.text`."""
        left_out = [f"onnxscript is left out: {self.failure}"] if self.failure else []
        return "\n".join([*left_out, super().text(verbose=verbose), self.summary])

    @property
    def summary(self) -> str:
        """The numbers of nodes before and after, on one line."""
        return f"all nodes: {self.all_before} before, {self.all_after} after"


def simplify(model: ir.Model, passes: Sequence[str] = BY_DEFAULT) -> tuple[ir.Model, Simplification]:
    """Run passes and onnxscript's optimizer over a model in turn, until the optimizer removes no more nodes.

    The passes run again after the optimizer. The new model is kept if it has fewer nodes, and no more slicing nodes,
    than the model before. If the model has functions, which are inlined, slicing nodes are not compared.

    A node that follows from constants is computed only if every engine computes it alike. No values are compared: only
    `verify_rewriting` finds a value that the optimizer changes.

    A model with a contested If stays as it is; see `Rewriting.contested`.

    Args:
        model: The model. It may be changed, and must not be used afterwards.
        passes: Keys of `PASSES`.

    Returns:
        The simplified model, and the report.

    Raises:
        UsageError: A pass is not known.
        MissingExtra: onnxscript is not installed.
        ModelError: The model is not well-formed.
        MemoryError, ChildLost: The machine lacks memory, or ended a worker process.
    """
    if importlib.util.find_spec("onnxscript") is None:  # no extra installs onnxscript, because sliceport depends on it
        raise MissingExtra(
            "onnxscript is needed to simplify, but it is not installed; run: pip install --force-reinstall sliceport."
        )
    all_before = count_nodes(model)
    report = rewrite(model, passes)
    defaults = pop_defaults(model)
    given, is_simplified, failure = model, False, ""
    if not any(node.op == "If" for node in report.contested):  # otherwise any change could make onnx refuse the model
        is_simplified = _fold_and_remove_neutral(model)
        model, report, failure = _optimize_in_turn(model, report, passes)
        is_simplified |= model is not given
    unmark(model)
    put_defaults(model, defaults)
    all_after = count_nodes(model)
    return model, Simplification(
        **vars(report), all_before=all_before, all_after=all_after, failure=failure, is_simplified=is_simplified
    )


def _optimize_in_turn(model: ir.Model, report: Rewriting, passes: Sequence[str]) -> tuple[ir.Model, Rewriting, str]:
    """Run the optimizer and passes in turn until the optimizer removes no more nodes, as described in `simplify`.

    Returns:
        The model; `report`, brought up to date; and the reason why the optimizer failed, or an empty string.
    """
    while True:
        progress.say("simplifying by onnxscript")
        try:
            candidate, count_before = optimize(model)
        except ModelError as error:  # the model stays as the passes have left it
            return model, report, str(error).rstrip(".")
        _fold_and_remove_neutral(candidate)
        candidate_report = run_passes(candidate, passes)
        # Inlining a function may copy its slicing nodes, so slicing nodes count only in a model without functions.
        has_new_slices = not model.functions and candidate_report.after > report.after
        if count_nodes(candidate) >= count_before or has_new_slices:
            return model, report, ""
        changes = {key: changes + candidate_report.changes[key] for key, changes in report.changes.items()}
        report = replace(candidate_report, before=report.before, changes=changes, invalid=report.invalid)
        model = candidate


def _fold_and_remove_neutral(model: ir.Model) -> bool:
    """Fold nodes that all engines compute alike, remove neutral operations, and return whether any of them went."""
    analysis = Analysis(model, folding=True)
    return bool(FoldConstantsPass().run(analysis) | RemoveNeutralOperandsPass().run(analysis))

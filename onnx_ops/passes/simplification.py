"""Simplification of whole models by the passes and by optimizers of other packages, in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

import onnx_ir as ir

from onnx_ops.model.defaults import pop_defaults, put_defaults
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.contested_nodes import clone_model, unmark
from onnx_ops.passes.fold_constants import FoldByOnnxruntimePass, FoldExactConstantsPass
from onnx_ops.passes.neutral_operands import RemoveNeutralOperandsPass
from onnx_ops.passes.optimize import count_nodes, optimize
from onnx_ops.passes.optimizers import ONNXRUNTIME, OPTIMIZERS, check_optimizers
from onnx_ops.passes.rewrite import BY_DEFAULT, Rewriting, check_passes, run_passes
from sliceport import progress
from sliceport.errors import ModelError


@dataclass(frozen=True)
class Simplification(Rewriting):
    """Report of a simplification.

    Attributes:
        all_before: The number of all nodes before, except Constants. Nodes of functions count once.
        all_after: The number of all nodes after.
        optimizers: The optimizers that took part.
        left_out: The optimizers that failed on the model, each with the reason.
    """

    all_before: int = 0
    all_after: int = 0
    optimizers: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        counts = {"all_nodes_before": self.all_before, "all_nodes_after": self.all_after, "optimizers": self.optimizers}
        return {**super().to_json(), **counts, "left_out": dict(self.left_out)}

    def text(self, *, verbose: bool = False) -> str:
        """Format the report for people; see `Rewriting.text`."""
        failed = [f"{name} is left out: {reason}" for name, reason in self.left_out.items()]
        taking_part = f", with {' and '.join(self.optimizers)}" if self.optimizers else ""
        counts = f"all nodes: {self.all_before} before, {self.all_after} after{taking_part}"
        return "\n".join([*failed, super().text(verbose=verbose), counts])


def simplify(
    model: ir.Model, passes: Sequence[str] = BY_DEFAULT, optimizers: Sequence[str] = OPTIMIZERS[:1]
) -> tuple[ir.Model, Simplification]:
    """Run passes and optimizers over a model in turn, until none of them leaves fewer nodes.

    The result of an optimizer is kept if it and the passes after it leave fewer nodes, and no more slicing nodes, so
    that an optimizer undoes nothing that the passes did. If the model has functions, slicing nodes are not compared,
    because optimizers inline functions. onnxscript and OnnxSlim see no floats, so that values stay the same bit for
    bit. Floats that follow from constants are computed if every engine computes them alike, or by onnxruntime's CPU
    provider if `onnxruntime` takes part. Only a verification (`verify_rewriting`) finds other mistakes of an optimizer.

    A model with a contested If stays as it is; see `Rewriting.contested`.

    Args:
        model: The model; it may be changed, and is not to be used any more.
        passes: Names of `PASSES`.
        optimizers: Names of `OPTIMIZERS`.

    Returns:
        The simplified model, and what was done.

    Raises:
        UsageError: A pass or an optimizer is not known.
        MissingExtra: An optimizer is not installed.
        ModelError: The model is not well-formed.
    """
    check_passes(passes)
    check_optimizers(optimizers)
    all_before = count_nodes(model)
    defaults = pop_defaults(model)
    report = run_passes(model, passes)
    taking_part: tuple[str, ...] = ()
    left_out: dict[str, str] = {}
    has_contested_branches = any(node.op == "If" for node in report.contested)
    if not has_contested_branches:
        _fold(model)
        model, report, left_out = _optimize_in_turn(model, report, passes, optimizers)
        taking_part = tuple([name for name in optimizers if name not in left_out])
    unmark(model)
    put_defaults(model, defaults)
    simplification = Simplification(
        **vars(report), all_before=all_before, all_after=count_nodes(model), optimizers=taking_part, left_out=left_out
    )
    return model, simplification


def _optimize_in_turn(
    model: ir.Model, report: Rewriting, passes: Sequence[str], optimizers: Sequence[str]
) -> tuple[ir.Model, Rewriting, dict[str, str]]:
    """Run optimizers and passes while the model gets smaller; return model, report, and the reason of each failure."""
    # One pass for all turns, because its limits of bytes apply to all turns together.
    tries_without_gain, by_onnxruntime = 0, FoldByOnnxruntimePass()
    left_out: dict[str, str] = {}
    for name in cycle(optimizers):
        if tries_without_gain == len(optimizers):
            break
        tries_without_gain += 1
        if name in left_out:
            continue
        progress.say(f"simplifying by {name}")
        if name == ONNXRUNTIME:
            candidate, count_before = clone_model(model), count_nodes(model)
            by_onnxruntime.run(Analysis(candidate, folding=True))
        else:
            try:
                candidate, count_before = optimize(model, name)
            except ModelError as error:  # the model is simplified without the optimizer
                left_out[name] = str(error).rstrip(".")
                continue
            _fold(candidate)
        candidate_report = run_passes(candidate, passes)
        # An optimizer inlines functions, which may copy their slicing nodes.
        has_new_slices = not model.functions and candidate_report.after > report.after
        if count_nodes(candidate) < count_before and not has_new_slices:
            model, report, tries_without_gain = candidate, _join(report, candidate_report), 0
    return model, report, left_out


def _fold(model: ir.Model) -> None:
    """Fold the nodes for which every engine computes the same from constants, and remove neutral operands."""
    analysis = Analysis(model, folding=True)
    FoldExactConstantsPass().run(analysis)
    RemoveNeutralOperandsPass().run(analysis)


def _join(first: Rewriting, second: Rewriting) -> Rewriting:
    """Join the reports of two runs."""
    changes = {name: changes + second.changes[name] for name, changes in first.changes.items()}
    return replace(second, before=first.before, changes=changes, invalid=first.invalid)

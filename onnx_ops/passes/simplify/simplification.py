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
from onnx_ops.passes.rewrite.run import BY_DEFAULT, Rewriting, rewrite, run_passes
from onnx_ops.passes.simplify.fold_constants import FoldByOnnxruntimePass, FoldExactConstantsPass
from onnx_ops.passes.simplify.neutral_operands import RemoveNeutralOperandsPass
from onnx_ops.passes.simplify.optimize import count_nodes, optimize
from onnx_ops.passes.simplify.optimizers import ONNXRUNTIME, OPTIMIZERS, check_optimizers
from sliceport.errors import ModelError
from sliceport.sandbox import progress


@dataclass(frozen=True)
class Simplification(Rewriting):
    """Report of a simplification.

    Attributes:
        all_before: The number of all nodes before, except Constants. Nodes of functions count once.
        all_after: The number of all nodes after, counted in the same way.
        optimizers: The optimizers that took part, except those in `left_out`.
        left_out: The optimizers that failed on the model, each with the reason.
        is_simplified: Whether constants were folded, neutral operations removed, or the result of an optimizer kept.
    """

    all_before: int = 0
    all_after: int = 0
    optimizers: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    is_simplified: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the model was changed at all."""
        return super().is_changed or self.is_simplified

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        counts = {"all_nodes_before": self.all_before, "all_nodes_after": self.all_after, "optimizers": self.optimizers}
        return {**super().to_json(), **counts, "left_out": dict(self.left_out)}

    def text(self, *, verbose: bool = False) -> str:
        """Format the report for people; see `Rewriting.text`."""
        failed = [f"{name} is left out: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([*failed, super().text(verbose=verbose), self.summary])

    @property
    def summary(self) -> str:
        """The numbers of nodes before and after, on one line."""
        taking_part = f", with {' and '.join(self.optimizers)}" if self.optimizers else ""
        return f"all nodes: {self.all_before} before, {self.all_after} after{taking_part}"


def simplify(
    model: ir.Model, passes: Sequence[str] = BY_DEFAULT, optimizers: Sequence[str] = OPTIMIZERS[:1]
) -> tuple[ir.Model, Simplification]:
    """Run passes and optimizers over a model in turn, until no optimizer reduces the number of nodes.

    The passes run again after each optimizer. The new model is kept if it has fewer nodes, and no more slicing nodes,
    than the model before. If the model has functions, which optimizers inline, slicing nodes are not compared.

    Floats are hidden from onnxscript and OnnxSlim, so that they change no bit of a value. A float that follows from
    constants is computed only if every engine computes it alike, or by onnxruntime's CPU provider if `onnxruntime` is
    among the optimizers. No values are compared: only `verify_rewriting` finds a value that an optimizer changes.

    A model with a contested If stays as it is; see `Rewriting.contested`.

    Args:
        model: The model. It may be changed, and must not be used afterwards.
        passes: Keys of `PASSES`.
        optimizers: Names in `OPTIMIZERS`.

    Returns:
        The simplified model, and the report.

    Raises:
        UsageError: A pass or an optimizer is not known.
        MissingExtra: An optimizer is not installed.
        ModelError: The model is not well-formed.
        MemoryError, ChildLost: The machine lacks memory, or ended a worker process.
    """
    check_optimizers(optimizers)
    all_before = count_nodes(model)
    report = rewrite(model, passes)
    defaults = pop_defaults(model)
    left_out: dict[str, str] = {}
    given, is_simplified = model, False
    if any(node.op == "If" for node in report.contested):  # any change could make onnx refuse the model
        optimizers = ()
    else:
        is_simplified = _fold_and_remove_neutral(model)
        model, report, left_out = _optimize_in_turn(model, report, passes, optimizers)
        is_simplified |= model is not given
    taking_part = tuple([name for name in optimizers if name not in left_out])
    unmark(model)
    put_defaults(model, defaults)
    simplification = Simplification(
        **vars(report),
        all_before=all_before,
        all_after=count_nodes(model),
        optimizers=taking_part,
        left_out=left_out,
        is_simplified=is_simplified,
    )
    return model, simplification


def _optimize_in_turn(
    model: ir.Model, report: Rewriting, passes: Sequence[str], optimizers: Sequence[str]
) -> tuple[ir.Model, Rewriting, dict[str, str]]:
    """Run optimizers and passes in turn until no optimizer reduces the number of nodes, as described in `simplify`.

    Returns:
        The model; `report`, brought up to date; and the optimizers that failed, each with the reason.
    """
    # One pass object for all turns, because its limits of bytes apply to all turns together.
    onnxruntime_pass = FoldByOnnxruntimePass()
    left_out: dict[str, str] = {}
    tries_without_gain = 0
    for name in cycle(optimizers):
        if tries_without_gain == len(optimizers):
            break
        tries_without_gain += 1
        if name in left_out:
            continue
        progress.say(f"simplifying by {name}")
        if name == ONNXRUNTIME:
            candidate, count_before = clone_model(model), count_nodes(model)
            onnxruntime_pass.run(Analysis(candidate, folding=True))
        else:
            try:
                candidate, count_before = optimize(model, name)
            except ModelError as error:  # the model is simplified without this optimizer
                left_out[name] = str(error).rstrip(".")
                continue
            _fold_and_remove_neutral(candidate)
        candidate_report = run_passes(candidate, passes)
        # Inlining a function may copy its slicing nodes, so slicing nodes count only in a model without functions.
        has_new_slices = not model.functions and candidate_report.after > report.after
        if count_nodes(candidate) < count_before and not has_new_slices:
            changes = {key: changes + candidate_report.changes[key] for key, changes in report.changes.items()}
            report = replace(candidate_report, before=report.before, changes=changes, invalid=report.invalid)
            model, tries_without_gain = candidate, 0
    return model, report, left_out


def _fold_and_remove_neutral(model: ir.Model) -> bool:
    """Fold nodes that all engines compute alike, remove neutral operations, and return whether any of them went."""
    analysis = Analysis(model, folding=True)
    return bool(FoldExactConstantsPass().run(analysis) | RemoveNeutralOperandsPass().run(analysis))

"""Running the passes that simplify slicing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import onnx_ir as ir

from onnx_ops.model.nodes import CONTESTED, SLICING, constant, is_standard, node_name
from onnx_ops.model.views import OperatorView
from onnx_ops.model.walk import graphs_in, model_nodes, nodes_with_opsets
from onnx_ops.passes.analysis import SELECTING, Analysis
from onnx_ops.passes.base import SlicingPass, run_until_stable
from onnx_ops.passes.contested_nodes import ready_for_passes
from onnx_ops.passes.outcome import Skipped
from onnx_ops.passes.rewrite.shorten_chains import ShortenChainsPass
from onnx_ops.passes.value_info import ValueInfo
from sliceport.errors import unknown_name
from sliceport.hardening import Change, InvalidNode, format_invalid_count
from sliceport.wording import format_findings


def _find_passes() -> dict[str, type[SlicingPass]]:
    """Return the passes in the files of this folder by name, each behind the pass that its `after` names."""
    modules = [import_module(f"{__package__}.{file.name}") for file in iter_modules([str(Path(__file__).parent)])]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    kinds = {kind.name: kind for kind in classes if issubclass(kind, SlicingPass) and kind.name}
    return dict(sorted(kinds.items(), key=lambda named: (_count_earlier(named[1], kinds), named[0])))


def _count_earlier(kind: type[SlicingPass], kinds: Mapping[str, type[SlicingPass]]) -> int:
    """Return how many passes a pass comes after: the one that its `after` names, the one of that pass, and so on."""
    earlier: list[str] = []
    while kind.after:
        if kind.after not in kinds or kind.after in earlier:
            problem = f"after = {kind.after!r} of {kind.__qualname__} ({kind.__module__}) names no earlier pass"
            raise ValueError(f"{problem}; the passes are {', '.join(kinds)}.")
        earlier.append(kind.after)
        kind = kinds[kind.after]
    return len(earlier)


PASSES = _find_passes()
"""The passes, by the names that `sliceport rewrite --passes` accepts, in the order in which they run."""
_REWRITTEN = frozenset(op_type for kind in PASSES.values() for op_type in kind.op_types)
_UNEQUAL_BRANCHES_OPSET = 11
"""The first operator set that allows the branches of an If to have outputs of different sizes."""
_UNEQUAL_BRANCHES = "its branches have outputs of different sizes, which onnx accepts only if it does not infer them"
BY_DEFAULT = tuple(name for name, kind in PASSES.items() if kind.is_default)


@dataclass(frozen=True)
class Rewriting:
    """Report of a rewriting.

    Attributes:
        before: The number of slicing nodes before: Slice, Split, StridedSlice, and Gather by constant indices.
        after: The number of slicing nodes after.
        changes: The changes that each pass made.
        skipped: The nodes that each pass skipped in the last round, and why.
        contested: The slicing nodes that no pass touches, because engines disagree about them. Also each If whose
            branches have outputs of different sizes: if there is one, nothing in the model is rewritten.
        invalid: The nodes that break their specification. No pass touches them either.
    """

    before: int
    after: int
    changes: dict[str, tuple[Change, ...]]
    skipped: dict[str, tuple[Skipped, ...]]
    contested: tuple[Skipped, ...] = ()
    invalid: tuple[InvalidNode, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all nodes are valid. Valid slicing that stays as it is does not count as incomplete."""
        return not self.invalid

    @property
    def is_changed(self) -> bool:
        """Whether the model was changed at all."""
        return any(self.changes.values())

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        passes = {
            name: {
                "changes": [
                    {"node": change.node, "op": change.op, "replacement": change.replacement} for change in changes
                ],
                "skipped": [asdict(node) for node in self.skipped[name]],
            }
            for name, changes in self.changes.items()
        }
        contested = [asdict(node) for node in self.contested]
        invalid = [node.to_json() for node in self.invalid]
        counts = {"nodes_before": self.before, "nodes_after": self.after}
        return {**counts, "passes": passes, "contested": contested, "invalid": invalid}

    def text(self, *, verbose: bool = False) -> str:
        """Format the report for people. `verbose` adds the names of all nodes, and the nodes that passes skipped."""
        by_pass = [(name, change) for name, changes in self.changes.items() for change in changes]
        findings = [(change.op, change.node, f"{change.outcome} ({name})") for name, change in by_pass]
        findings += [(skipped.op, skipped.node, f"{skipped.reason}: left as it is") for skipped in self.contested]
        findings += [node.to_finding() for node in self.invalid]
        if verbose:
            for name, nodes in self.skipped.items():
                findings += [(node.op, node.node, f"skipped by {name}: {node.reason}") for node in nodes]
        return "\n".join([*format_findings(findings, verbose=verbose), self._slicing_counts])

    @property
    def _slicing_counts(self) -> str:
        return f"slicing nodes: {self.before} before, {self.after} after{format_invalid_count(self.invalid)}"

    @property
    def summary(self) -> str:
        """The numbers of nodes before and after, on one line."""
        return self._slicing_counts


def rewrite(model: ir.Model, passes: Sequence[str] = BY_DEFAULT) -> Rewriting:
    """Run passes over a model, again and again until none of them finds anything more.

    Args:
        model: The model; it is changed.
        passes: Keys of `PASSES`. Their order does not matter.

    Raises:
        UsageError: A name is not the name of a pass.
        ModelError: The model is not well-formed.
    """
    check_passes(passes)
    with ready_for_passes(model):
        return run_passes(model, passes)


def check_passes(names: Sequence[str]) -> None:
    """Check that each name is the name of a pass.

    Raises:
        UsageError: A name is not the name of a pass.
    """
    for name in names:
        if name not in PASSES:
            raise unknown_name("pass", name, list(PASSES))


def may_need_rewriting(nodes: Iterable[OperatorView]) -> bool:
    """Return whether `rewrite` may change or report one of the nodes of a model."""
    return any(node.op_type in _REWRITTEN for node in nodes)


def run_passes(model: ir.Model, names: Sequence[str]) -> Rewriting:
    """Run passes over a model until none of them finds anything more. `names` are keys of `PASSES`.

    No pass runs if an If is contested; see `Rewriting.contested`. Call this function inside `ready_for_passes`, which
    removes the marks that this function leaves on contested nodes.

    Raises:
        ModelError: The model is not well-formed.
    """
    if not may_need_rewriting(model_nodes(model)):
        return build_empty_report(names)
    analysis = Analysis(model, folding=True)
    before = _count_slicing_nodes(analysis)
    invalid = tuple(analysis.value_info.list_invalid())
    unequal_ifs = tuple(_find_unequal_branches(model, analysis.value_info))
    if unequal_ifs:  # any change could make onnx refuse the model, so no pass runs
        contested = (*_list_contested(analysis), *unequal_ifs)
        return replace(build_empty_report(names), before=before, after=before, contested=contested, invalid=invalid)
    passes = {name: pass_class() for name, pass_class in PASSES.items() if name in names}
    if "chain" in names and "scalar" in names:  # `scalar` would replace the Gathers of `chain` again
        passes["chain"] = ShortenChainsPass(gathers=False)
    changes = dict(zip(passes, map(tuple, run_until_stable(list(passes.values()), analysis)), strict=True))
    skipped = {name: tuple(slicing_pass.skipped) for name, slicing_pass in passes.items()}
    return Rewriting(before, _count_slicing_nodes(analysis), changes, skipped, _list_contested(analysis), invalid)


def build_empty_report(names: Sequence[str]) -> Rewriting:
    """Return the report of passes that find nothing in a model. `names` are keys of `PASSES`.

    Raises:
        UsageError: A name is not the name of a pass.
    """
    check_passes(names)
    changes: dict[str, tuple[Change, ...]] = {name: () for name in PASSES if name in names}
    return Rewriting(before=0, after=0, changes=changes, skipped=dict.fromkeys(changes, ()))


def _find_unequal_branches(model: ir.Model, value_info: ValueInfo) -> Iterator[Skipped]:
    """Yield each If before opset 11 whose branches have outputs of different sizes.

    onnx refuses the model if it can infer both shapes. Any change of the model may enable onnx to infer them.
    """
    for node, opset in nodes_with_opsets(model):
        if opset >= _UNEQUAL_BRANCHES_OPSET or not is_standard(node, "If"):
            continue
        for outputs in zip(*[graph.outputs for graph in graphs_in(node)], strict=False):
            shapes = [shape for output in outputs if (shape := value_info.sizes.get(output)) is not None]
            sizes_by_axis = [{size for size in axis if size is not None} for axis in zip(*shapes, strict=False)]
            if len(set(map(len, shapes))) > 1 or any(len(sizes) > 1 for sizes in sizes_by_axis):
                reason = f"{_UNEQUAL_BRANCHES}, so that nothing in the model is rewritten"
                yield Skipped(node_name(node), "If", reason)
                break


def _list_contested(analysis: Analysis) -> tuple[Skipped, ...]:
    """Return the slicing nodes that engines read differently, each with the reason. Inference has marked them."""
    return tuple(
        Skipped(node_name(node), node.op_type, node.meta[CONTESTED].reason)
        for node, _ in analysis.nodes_of(*SLICING)
        if CONTESTED in node.meta
    )


def _count_slicing_nodes(analysis: Analysis) -> int:
    """Return the number of slicing nodes. A Gather counts only if its indices, the second input, are constant."""
    count = 0
    for node, _ in analysis.nodes_of(*SELECTING):
        indices = node.inputs[1] if len(node.inputs) > 1 else None
        count += node.op_type != "Gather" or (indices is not None and constant(indices) is not None)
    return count


class RewriteSlicingPass(ir.passes.InPlacePass):
    """`rewrite` as one pass of onnx-ir.

    Attributes:
        names: The keys in `PASSES` of the passes that it runs.
        report: The report of the last run; None before the first one.
    """

    def __init__(self, names: Sequence[str] = BY_DEFAULT) -> None:
        super().__init__()
        self.names = tuple(names)
        self.report: Rewriting | None = None

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the passes. `modified` is true exactly when the model was changed. See `rewrite` for the errors."""
        self.report = rewrite(model, self.names)
        return ir.passes.PassResult(model, modified=self.report.is_changed)


ALL = (RewriteSlicingPass(),)
"""The argument of `ir.passes.Sequential` for all passes that run by default."""

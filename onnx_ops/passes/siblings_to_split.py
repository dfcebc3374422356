"""Slices of one value become one Split."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from onnx_ops.nodes import has_its_values
from onnx_ops.passes.base import Left, NotApplied, SlicingPass, name_of, nodes_of
from onnx_ops.passes.builders import is_used, split_node, view_node
from onnx_ops.passes.gating import GATED, is_gated
from onnx_ops.passes.matchers import filled_parts, gathered, source_of, written_slice
from onnx_ops.passes.value_info import Knowledge, Sizes
from sliceport.hardening import Change
from sliceport.slicing import resolve_axis
from sliceport.slicing.tiling import fill_gaps, find_tiling, select_disjoint

GAP_BYTES = 4096
"""Bytes that are copied in less time than it takes to start an operator (measured: onnxruntime's CPU provider)."""
FEWEST_GATHERS = 3
"""Gathers of one index that alone are worth a Split: each leaves a Squeeze, which takes onnxruntime's CPU as long."""
_SPLIT_OPSET = 2
"""Split-1 takes its sizes as an input or as an attribute, and onnxruntime has no implementation of it."""
IN_SPLIT = "with the others that cut the same value it becomes a Split"


@dataclass(frozen=True)
class Part:
    """A run of an axis that a node keeps.

    Attributes:
        node: The node.
        output: Its output.
        run: The run.
        is_dropped: Whether the axis is dropped: a Gather of one index.
    """

    node: ir.Node
    output: ir.Value
    run: range
    is_dropped: bool = False


class SiblingsToSplitPass(SlicingPass):
    """Make one Split of Slices of one value that follow one another along an axis, with Splits and Gathers among them.

    1. Runs tile the axis: Slices of step 1 that keep the other axes whole, all parts that are read of Splits, Gathers
       by constant indices that are neighbours, or of one index, which become a part with a Squeeze; if all are
       such, at least three.
    2. Runs leave gaps: parts that nothing reads fill them, if those are at most 4 KiB for each operator that is saved.

    The size of the axis is known; nothing is done where the nodes would not become fewer. Runs that overlap stay, so
    that as many as can be become parts. Not where one part is multiplied by the Sigmoid of another: onnxruntime's
    DirectML provider computes that wrongly.

    Given: a = Slice(x[8], [0], [3], [0]); b = Slice(x, [3], [8], [0])
    Result: a, b = Split(x, [3, 5], axis=0)
    """

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        nodes = dict(nodes_of(model, "Slice", "Split", "Gather"))
        order = {node: i for i, node in enumerate(nodes)}
        for (_, _, axis), parts in siblings(nodes, self.known).items():
            while len({part.node for part in parts}) > 1:
                data = source_of(parts[0].node.inputs[0])  # another group's Split may have made it anew
                assert data is not None
                chosen = chosen_parts(parts, data, axis, self.known)
                if chosen is None:
                    self._say_why_not(parts, axis)
                    break
                first = min((part.node for part in chosen), key=order.__getitem__)
                self._split(chosen, data, axis, first, nodes[first])
                parts = [part for part in parts if part.node.graph is not None]  # noqa: PLW2901

    def _say_why_not(self, parts: Sequence[Part], axis: int) -> None:
        reason = f"with the others along axis {axis} it leaves gaps or overlaps, and a Split would save no operator"
        if is_gated([part.output for part in parts]):
            reason = GATED
        for node in dict.fromkeys(part.node for part in parts):
            self.left.append(Left(name_of(node), node.op_type, reason))

    def _split(self, parts: Sequence[Part], data: ir.Value, axis: int, first: ir.Node, opset: int) -> None:
        """Put one Split in the place of the nodes of parts, where the first of them is."""
        size, shape = self.size(data, axis), self.sizes(data)
        assert size is not None
        assert shape is not None
        runs = fill_gaps([part.run for part in parts], size)
        new = split_node(data, axis, list(map(len, runs)), opset)
        split = new[-1]
        split.name = first.name
        by_run = {part.run: part for part in parts}
        successors: dict[ir.Value, ir.Value] = {}
        for output, run in zip(split.outputs, runs, strict=True):
            part = by_run.get(run)
            if part is not None and not part.is_dropped:
                successors[part.output] = output
                continue
            self.describe(output, data, (*shape[:axis], len(run), *shape[axis + 1 :]), parts[0].output)
            if part is not None:
                new += view_node("Squeeze", output, [axis], opset)
                new[-1].name = f"{name_of(part.node)}_squeeze"
                successors[part.output] = new[-1].outputs[0]
        nodes = list(dict.fromkeys(part.node for part in parts))
        self.put_in_place(nodes, new, successors, split, first)
        self.changes += [Change(name_of(node), node.op_type, "Split", ()) for node in nodes]


def siblings(nodes: Mapping[ir.Node, int], known: Knowledge) -> dict[tuple[int, ir.Value, int], list[Part]]:
    """By graph, value and axis, the runs that nodes keep of the axis of the value and of nothing else.

    Args:
        nodes: Slices, Splits and Gathers with the version of their operator set.
        known: What is known of values.
    """
    groups: dict[tuple[int, ir.Value, int], list[Part]] = defaultdict(list)
    for node, opset in nodes.items():
        data = source_of(node.inputs[0]) if has_its_values(node) else None
        if data is None or opset < _SPLIT_OPSET:
            continue
        try:
            axis, parts = _parts(node, opset, known.sizes.get(data))
        except NotApplied:
            continue
        if parts:
            groups[id(node.graph), data, axis].extend(parts)
    return groups


def split_members(model: ir.Model, known: Knowledge) -> set[ir.Node]:
    """The nodes that `SiblingsToSplitPass` makes Splits of."""
    found: set[ir.Node] = set()
    for (_, data, axis), parts in siblings(dict(nodes_of(model, "Slice", "Split", "Gather")), known).items():
        left = parts
        while chosen := chosen_parts(left, data, axis, known):
            nodes = {part.node for part in chosen}
            found |= nodes
            left = [part for part in left if part.node not in nodes]
    return found


def chosen_parts(parts: Sequence[Part], data: ir.Value, axis: int, known: Knowledge) -> list[Part] | None:
    """The parts that one Split is to make, in their order; None if no operator is saved."""
    size = known.sizes[data][axis]
    assert size is not None
    whole = _of_whole_nodes(parts, lambda runs: find_tiling(runs, size) or [])
    gapped = _of_whole_nodes(parts, select_disjoint)
    saved, more = _starts(whole) - 1, _starts(gapped) - max(_starts(whole), 1)
    gap = size - sum(len(part.run) for part in gapped)
    if any(is_gated([part.output for part in found]) for found in (whole, gapped)):
        return None
    if more > 0 and (gap == 0 or fits_gap(gap, data, axis, known, more)):
        return gapped
    return whole if saved > 0 else None


def fits_gap(gap: int, data: ir.Value, axis: int, known: Knowledge, saved: int) -> bool:
    """Whether elements of an axis that nothing reads may be copied to save operators."""
    others = [size for i, size in enumerate(known.sizes[data]) if i != axis]
    sizes = [size for size in others if size is not None]
    dtype = known.dtype(data)
    if dtype is None or len(sizes) < len(others) or dtype == ir.DataType.STRING:
        return False
    return gap * prod(sizes) * dtype.itemsize <= GAP_BYTES * saved


def _parts(node: ir.Node, opset: int, shape: Sizes | None) -> tuple[int, list[Part]]:
    """The axis that a node cuts into runs, and the runs; no runs where it does something else.

    Raises:
        NotApplied: That is not known.
    """
    if node.op_type == "Split":
        spec = filled_parts(node, opset, shape)
        read = [(o, range(*b)) for o, b in zip(node.outputs, spec.bounds, strict=True) if is_used(o)]
        return spec.axis, [Part(node, output, run) for output, run in read] if all(r for _, r in read) else []
    if node.op_type == "Gather":
        axis, run, is_dropped = gathered(node, opset, shape)
        return axis, [Part(node, node.outputs[0], run, is_dropped)] if run and run.step == 1 else []
    run_of = sliced_run(node, opset, shape)
    return (0, []) if run_of is None else (run_of[0], [Part(node, node.outputs[0], run_of[1])])


def sliced_run(node: ir.Node, opset: int, shape: Sizes | None) -> tuple[int, range] | None:
    """The one axis that a Slice cuts, and the run of neighbours that it keeps; None if it does something else.

    Raises:
        NotApplied: That is not known.
    """
    entries = written_slice(node, opset, shape)
    known = dict(enumerate(shape or ()))
    cut = {axis: entry for axis, entry in entries.items() if not entry.is_whole(known.get(axis))}
    if len(cut) != 1:
        return None
    ((axis, entry),) = cut.items()
    size = known.get(axis)
    if size is None:
        raise NotApplied(f"the size of axis {axis} is not known")
    run = resolve_axis(*entry, size)
    return (axis, run) if run and run.step == 1 else None


def _of_whole_nodes(parts: Sequence[Part], choose: Callable[[dict[int, range]], list[int]]) -> list[Part]:
    """The parts that are chosen of those of nodes of which all parts are."""
    while True:
        chosen = [parts[i] for i in choose({i: part.run for i, part in enumerate(parts)})]
        every, some = Counter(part.node for part in parts), Counter(part.node for part in chosen)
        if every == some or all(some[node] in (0, every[node]) for node in every):
            return chosen
        parts = [part for part in parts if some[part.node] in (0, every[part.node])]


def _starts(parts: Sequence[Part]) -> int:
    """How many operators go for a Split; none if they are but few Gathers of one index, for each leaves a Squeeze."""
    nodes = {part.node for part in parts}
    only_single = all(part.is_dropped for part in parts)
    return 0 if only_single and len(nodes) < FEWEST_GATHERS else len(nodes)

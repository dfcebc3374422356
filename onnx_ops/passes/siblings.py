"""Siblings: nodes that cut one value along one axis, and which of them one Split can replace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import onnx_ir as ir

from onnx_ops.defects.conditions import is_gated
from onnx_ops.model.nodes import has_valid_arity
from onnx_ops.model.views import Sizes, static_sizes
from onnx_ops.passes.edits import Identities, is_used
from onnx_ops.passes.matchers import drop_whole_axes, read_exact_split, read_gather, read_slice
from onnx_ops.passes.outcome import SKIPS, Skip
from onnx_ops.passes.value_info import ValueInfo
from sliceport.slicing import resolve_axis
from sliceport.slicing.tiling import find_tilings, select_disjoint

_MAX_GAP_BYTES = 4096
"""Bytes that are copied in less time than it takes to start an operator (measured: onnxruntime's CPU provider)."""
_MIN_GATHERS = 3
"""The fewest Gathers of a scalar index that are worth a Split of their own. The Squeeze that each leaves takes as long
as a Gather."""
IN_SPLIT = "one Split can replace it together with the other nodes that cut the same value"
_SPLIT_OPSET = 2
"""The first operator set in which Splits are written, because onnxruntime does not implement Split-1."""


@dataclass(frozen=True)
class Part:
    """Neighbouring elements of an axis that a node selects.

    Attributes:
        node: The node.
        output: Its output.
        run: The indices of the elements.
        drops_axis: Whether the node is a Gather of a scalar index, which drops the axis.
    """

    node: ir.Node
    output: ir.Value
    run: range
    drops_axis: bool = False


GroupKey = tuple[int, ir.Value, int]  # the `id` of a graph, a value, and an axis of the value
Groups = Mapping[GroupKey, Sequence[Part]]
"""The parts of the nodes that cut only one axis of a value, by graph, value and axis."""


@dataclass(frozen=True)
class Siblings:
    """The siblings in a model.

    Attributes:
        nodes: All Slices, Splits and Gathers in the order of the model, with the versions of their operator sets.
        groups: The parts of these nodes, except nodes that no Split can replace.
        value_info: Shapes and types.
    """

    nodes: Mapping[ir.Node, int]
    groups: Groups
    value_info: ValueInfo

    @cached_property
    def splits_by_group(self) -> Mapping[GroupKey, Sequence[Sequence[Part]]]:
        """For each group, the parts of each Split that `SiblingsToSplitPass` builds."""
        return {key: self._choose_splits(parts, key) for key, parts in self.groups.items()}

    @cached_property
    def split_members(self) -> frozenset[ir.Node]:
        """The nodes that the Splits of `splits_by_group` replace."""
        return frozenset(part.node for splits in self.splits_by_group.values() for parts in splits for part in parts)

    def _choose_splits(self, parts: Sequence[Part], key: GroupKey) -> list[list[Part]]:
        """Return the parts of each Split. Choose again among the rest until `_choose_parts` finds no Split."""
        _, data, axis = key
        chosen: list[list[Part]] = []
        while len({part.node for part in parts}) > 1:
            splits = _choose_parts(parts, data, axis, self.value_info)
            if not splits:
                break
            chosen += splits
            replaced = {part.node for split in splits for part in split}
            parts = [part for part in parts if part.node not in replaced]
        return chosen


def find_siblings(nodes_with_opsets: Iterable[tuple[ir.Node, int]], value_info: ValueInfo) -> Siblings:
    """Group Slices, Splits and Gathers by graph, cut value and axis. Leave out nodes that no Split can replace."""
    nodes = dict(nodes_with_opsets)
    groups: dict[GroupKey, list[Part]] = defaultdict(list)
    identities = Identities()
    for node, opset in nodes.items():
        source = node.inputs[0] if has_valid_arity(node) else None
        data = None if source is None else identities.source_of(source)
        if data is None or opset < _SPLIT_OPSET:
            continue
        try:
            axis, parts = _read_parts(node, opset, value_info.sizes.get(data))
        except SKIPS:
            continue
        if parts:
            groups[id(node.graph), data, axis].extend(parts)
    return Siblings(nodes, groups, value_info)


def _choose_parts(parts: Sequence[Part], data: ir.Value, axis: int, value_info: ValueInfo) -> list[list[Part]]:
    """Return the parts of one or more Splits, each in order.

    The result is empty if no Split saves an operator. It is also empty if the best Split without gaps, or the best one
    with gaps, has a part that is multiplied by the Sigmoid of another part. Any further Split with such a part is
    left out.
    """
    size = value_info.sizes[data][axis]
    assert size is not None
    # One search finds all Splits without gaps. One search for each Split would take quadratic time if many overlap.
    tilings = _choose_whole_nodes(parts, lambda runs: find_tilings(runs, size))
    gapless = tilings[0] if tilings else []
    (gapped,) = _choose_whole_nodes(parts, lambda runs: [select_disjoint(runs)])
    # The new Split is a node itself, so it saves one node fewer than it replaces.
    saved = max(_count_replaced(gapless) - 1, 0)
    more_saved = _count_replaced(gapped) - 1 - saved  # by a Split with gaps
    gap = size - sum(len(part.run) for part in gapped)
    # onnxruntime's DirectML provider computes a Split wrongly if one part is multiplied by the Sigmoid of another.
    if any(is_gated([part.output for part in split_parts]) for split_parts in (gapless, gapped)):
        return []
    if more_saved > 0 and (gap == 0 or is_gap_worth_copying(gap, data, axis, value_info, more_saved)):
        return [gapped]
    if not saved:
        return []
    further = [tiling for tiling in tilings[1:] if _count_replaced(tiling) > 1]  # a Split for one node saves nothing
    return [gapless, *[tiling for tiling in further if not is_gated([part.output for part in tiling])]]


def is_gap_worth_copying(gap: int, data: ir.Value, axis: int, value_info: ValueInfo, saved_nodes: int) -> bool:
    """Return whether it pays to copy `gap` unread indices of an axis in order to save `saved_nodes` nodes.

    The result is False if the number of bytes is not known, and for strings.
    """
    other_sizes = static_sizes(size for other, size in enumerate(value_info.sizes[data]) if other != axis)
    dtype = value_info.dtype(data)
    if dtype is None or other_sizes is None or dtype == ir.DataType.STRING:
        return False
    return gap * prod(other_sizes) * dtype.itemsize <= _MAX_GAP_BYTES * saved_nodes


def _read_parts(node: ir.Node, opset: int, shape: Sizes | None) -> tuple[int, list[Part]]:
    """Return the axis that a node cuts, and its parts; of a Split, only the parts that something reads.

    The list is empty if a part is empty or not a run of neighbours, or if a Slice does not cut exactly one axis. Raise
    one of `SKIPS` if the parts are not known.
    """
    if node.op_type == "Split":
        spec = read_exact_split(node, opset, shape)
        pairs = zip(node.outputs, spec.bounds, strict=True)
        parts = [Part(node, output, range(*bounds)) for output, bounds in pairs if is_used(output)]
        return spec.axis, (parts if all(part.run for part in parts) else [])
    if node.op_type == "Gather":
        axis, run, drops_axis = read_gather(node, opset, shape)
        return axis, ([Part(node, node.outputs[0], run, drops_axis)] if run and run.step == 1 else [])
    axis, run = read_single_axis_slice(node, opset, shape) or (0, range(0))
    return axis, ([Part(node, node.outputs[0], run)] if run else [])


def read_single_axis_slice(node: ir.Node, opset: int, shape: Sizes | None) -> tuple[int, range] | None:
    """Return the only axis that a Slice cuts, and the consecutive indices that it keeps.

    The result is None if the Slice cuts no axis or several axes, keeps nothing, or has a step other than 1.

    Raises:
        Skip, InvalidSlice, DynamicSlice: `read_slice` cannot read the bounds, or the size of the axis is not known.
    """
    cut = drop_whole_axes(read_slice(node, opset, shape), shape)
    if len(cut) != 1:
        return None
    ((axis, entry),) = cut.items()
    size = None if shape is None else shape[axis]
    if size is None:
        raise Skip(f"the size of axis {axis} is not known")
    run = resolve_axis(*entry, size)
    return (axis, run) if run and run.step == 1 else None


def _choose_whole_nodes(
    parts: Sequence[Part], choose: Callable[[dict[int, range]], list[list[int]]]
) -> list[list[Part]]:
    """Return sets of parts, the best set first. Each set contains all parts of a node or none of them.

    `choose` gets a dict from the position of each part to its run. It returns lists of positions, the best list first.
    If its best list contains only some parts of a node, `choose` is called again without the parts of this node.
    """
    while True:
        runs = {index: part.run for index, part in enumerate(parts)}
        part_sets = [[parts[index] for index in indices] for indices in choose(runs)]
        totals = Counter(part.node for part in parts)
        counts_by_set = [Counter(part.node for part in part_set) for part_set in part_sets]
        # For each set, the nodes that have some parts in the set and some outside.
        split_nodes = [{node for node in counts if counts[node] < totals[node]} for counts in counts_by_set]
        if not part_sets or not split_nodes[0]:
            return [part_set for part_set, split in zip(part_sets, split_nodes, strict=True) if not split]
        parts = [part for part in parts if part.node not in split_nodes[0]]


def _count_replaced(parts: Sequence[Part]) -> int:
    """Return how many nodes a Split of `parts` replaces, or 0 if these are only scalar Gathers and too few of them."""
    nodes = {part.node for part in parts}
    are_all_dropped = all(part.drops_axis for part in parts)
    return 0 if are_all_dropped and len(nodes) < _MIN_GATHERS else len(nodes)

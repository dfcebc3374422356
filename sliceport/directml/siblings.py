"""Sibling Slices: those of one value that together tile an axis of it, so that one SPLIT computes them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sliceport.slicing import find_tiled_axis
from sliceport.slicing.node import Resolved, SlicingNode
from sliceport.slicing.tiling import find_tiling


def group_siblings(nodes: Sequence[SlicingNode]) -> dict[int, list[int]]:
    """For the position of each node that has such siblings, the positions of all of its group, in the axis's order."""
    resolved: dict[int, Resolved] = {}
    by_input: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        if not isinstance(node, Resolved) or len(node.cuts) != 1:
            continue
        if node.cuts[0].output and not node.cuts[0].region.is_identity:
            resolved[i] = node
            by_input[node.scope, node.input].append(i)
    groups: dict[int, list[int]] = {}
    for members in by_input.values():
        if len(members) > 1:
            for group in _find_groups(resolved, members):
                groups.update(dict.fromkeys(group, group))
    return groups


def _find_groups(nodes: Mapping[int, Resolved], members: Sequence[int]) -> list[list[int]]:
    """Disjoint groups of nodes, each of which tiles an axis of the common input of all `members`."""
    regions = {i: nodes[i].cuts[0].region for i in members}
    by_axis: dict[int, list[int]] = defaultdict(list)
    for i, region in regions.items():
        sliced = [axis for axis, size in enumerate(region.input_shape) if region.ranges[axis] != range(size)]
        if len(sliced) == 1 and region.ranges[sliced[0]].step == 1:
            by_axis[sliced[0]].append(i)
    groups = []
    for axis, candidates in by_axis.items():
        runs = {i: regions[i].ranges[axis] for i in candidates}
        size = regions[candidates[0]].input_shape[axis]
        while (group := find_tiling(runs, size)) and find_tiled_axis([regions[i] for i in group]):
            groups.append(group)
            for i in group:
                del runs[i]
    return groups

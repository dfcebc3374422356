"""Sibling Slices: Slices of one value that together tile an axis of it, so that one SPLIT computes them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sliceport.slicing import find_tiled_axis
from sliceport.slicing.node import Resolved, SlicingNode
from sliceport.slicing.tiling import find_tilings


def group_siblings(nodes: Sequence[SlicingNode]) -> dict[int, list[int]]:
    """Map the position of each node with siblings to the positions of its whole group, in order along the axis."""
    resolved: dict[int, Resolved] = {}
    positions_by_input: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        if not isinstance(node, Resolved) or len(node.cuts) != 1:
            continue
        if node.cuts[0].output and not node.cuts[0].region.is_identity:
            resolved[i] = node
            positions_by_input[node.scope, node.input].append(i)
    groups: dict[int, list[int]] = {}
    for members in positions_by_input.values():
        for runs, size in _list_runs(resolved, members) if len(members) > 1 else ():
            for group in find_tilings(runs, size):
                # A member may drop or add axes of size 1, which a SPLIT cannot do.
                if find_tiled_axis([resolved[i].cuts[0].region for i in group]):
                    groups.update(dict.fromkeys(group, group))
    return groups


def _list_runs(nodes: Mapping[int, Resolved], members: Sequence[int]) -> Iterator[tuple[dict[int, range], int]]:
    """Yield for each axis the runs of the members that slice only this axis, and the size of the axis.

    All members slice the same input. A run is a range of step 1.
    """
    runs_by_axis: dict[int, dict[int, range]] = defaultdict(dict)
    for i in members:
        region = nodes[i].cuts[0].region
        sliced = [axis for axis, size in enumerate(region.input_shape) if region.ranges[axis] != range(size)]
        if len(sliced) == 1 and region.ranges[sliced[0]].step == 1:
            runs_by_axis[sliced[0]][i] = region.ranges[sliced[0]]
    shape = nodes[members[0]].cuts[0].region.input_shape
    for axis, runs in runs_by_axis.items():
        yield runs, shape[axis]

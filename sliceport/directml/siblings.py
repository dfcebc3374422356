"""Sibling Slices: Slices of one value that together tile an axis of it, so that one SPLIT computes them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sliceport.slicing import Region, find_tiled_axis
from sliceport.slicing.node import Resolved, SlicingNode
from sliceport.slicing.tiling import find_tilings


def group_siblings(nodes: Sequence[SlicingNode]) -> dict[int, list[int]]:
    """Group the Slices that together tile an axis of a value.

    The result maps the position in `nodes` of each such Slice to the positions of its group, in order along the axis.
    """
    regions: dict[int, Region] = {}
    ranges_by_axis: dict[tuple[tuple[str, ...], str, int], dict[int, range]] = defaultdict(dict)
    for i, node in enumerate(nodes):
        if not isinstance(node, Resolved) or len(node.cuts) != 1 or not node.cuts[0].output:
            continue
        region = node.cuts[0].region
        sliced = [axis for axis, size in enumerate(region.input_shape) if region.ranges[axis] != range(size)]
        # A SPLIT cuts one axis into parts with a step of 1.
        if not region.is_empty and len(sliced) == 1 and region.ranges[sliced[0]].step == 1:
            regions[i] = region
            ranges_by_axis[node.scope, node.input, sliced[0]][i] = region.ranges[sliced[0]]
    groups: dict[int, list[int]] = {}
    for (_, _, axis), ranges in ranges_by_axis.items():
        size = regions[next(iter(ranges))].input_shape[axis]  # all these nodes slice the same value
        for group in find_tilings(ranges, size):
            # `find_tiled_axis` refuses a group if a member drops or adds axes of size 1. A SPLIT cannot do this.
            if find_tiled_axis([regions[i] for i in group]):
                groups.update(dict.fromkeys(group, group))
    return groups

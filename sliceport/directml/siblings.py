"""Sibling Slices: Slices of one value that together tile an axis of it, so that one SPLIT computes them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sliceport.slicing.node import Resolved, SlicingNode
from sliceport.slicing.tiling import find_tilings


def group_siblings(nodes: Sequence[SlicingNode]) -> dict[int, list[int]]:
    """Group the Slices that together tile an axis of a value. A SPLIT may still be unable to compute a group.

    The result maps the position in `nodes` of each such Slice to the positions of its group, in order along the axis.
    """
    ranges_by_axis: dict[tuple[tuple[str, ...], str, int, int], dict[int, range]] = defaultdict(dict)
    for i, node in enumerate(nodes):
        if not isinstance(node, Resolved) or len(node.cuts) != 1 or not node.cuts[0].output:
            continue
        region = node.cuts[0].region
        sliced = [(axis, size) for axis, size in enumerate(region.input_shape) if region.ranges[axis] != range(size)]
        if region.is_empty or len(sliced) != 1:
            continue
        ((axis, size),) = sliced
        if region.ranges[axis].step == 1:  # a SPLIT cuts one axis into parts with a step of 1
            ranges_by_axis[node.scope, node.input, axis, size][i] = region.ranges[axis]
    groups = [group for (*_, size), ranges in ranges_by_axis.items() for group in find_tilings(ranges, size)]
    return {i: group for group in groups for i in group}

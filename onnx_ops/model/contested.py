"""Contested nodes: Slices and Splits about which engines disagree. No pass rewrites one or what it feeds."""

from __future__ import annotations

from collections.abc import Sequence

from sliceport.defects.defect import Defect
from sliceport.defects.onnxruntime import BACKWARD_TO_THE_GREATEST, BELOW_THE_AXIS, DROPPED_STEPS, EMPTY_LAST_PART
from sliceport.slicing import INT64_MAX, SliceSpec, SplitSpec

CONTESTED_ENDS = (2**31 - 1, INT64_MAX)
"""Ends of a backward Slice that onnxruntime's CPU provider and the specification read differently."""


def find_slice_disagreement(spec: SliceSpec, sizes: Sequence[int | None] | None) -> Defect | None:
    """Return the defect that makes engines disagree about a Slice, or None.

    Args:
        spec: The Slice as it is written; all engines refuse one that breaks the rules.
        sizes: The sizes of its data, None for an open one; None if the rank is open.
    """
    entries = list(zip(spec.starts, spec.ends, spec.steps or (), strict=False))
    if any(step < 0 and end in CONTESTED_ENDS for _, end, step in entries):
        return BACKWARD_TO_THE_GREATEST
    is_stepped = any(step != 1 for *_, step in entries)
    if is_stepped and spec.axes is None and all((start, end) == (0, INT64_MAX) for start, end, _ in entries):
        return DROPPED_STEPS
    axes = range(len(spec.starts)) if spec.axes is None else spec.axes
    for (start, _, step), axis in zip(entries, axes, strict=False):
        size = sizes[axis] if sizes is not None and -len(sizes) <= axis < len(sizes) else None
        if step < 0 and size and start < -size:
            return BELOW_THE_AXIS
    return None


def find_split_disagreement(spec: SplitSpec) -> Defect | None:
    """Return the defect that makes engines disagree about a Split by `num_outputs` into these parts, or None."""
    return EMPTY_LAST_PART if spec.sizes and spec.sizes[-1] == 0 else None

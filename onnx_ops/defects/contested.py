"""Contested nodes: Slices and Splits about which engines disagree. `rewrite` does not change them, `harden` may."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_ops.model.nodes import CONTESTED, NUM_OUTPUTS_OPSET, SLICING, is_standard, read_int, sizes_of
from onnx_ops.model.specs import slice_spec, split_spec
from onnx_ops.model.views import NodeView
from sliceport.defects.defect import Defect
from sliceport.defects.entries import read_entries
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing import INT64_MAX, SliceSpec
from sliceport.slicing.spec import normalize_axis

_DEFECTS = read_entries("onnxruntime")

CONTESTED_ENDS = (2**31 - 1, INT64_MAX)
"""Ends of a backward Slice about which onnxruntime's CPU provider differs from the specification."""


def find_disagreement(node: NodeView, opset: int, sizes: Sequence[int | None] | None = None) -> Defect | None:
    """Return the defect that makes engines disagree about a Slice or Split.

    Return None for any other node, if engines agree about the node, or if its parameters cannot be read. The node is
    not checked otherwise, so an invalid one may get a defect.

    Args:
        node: Any node.
        opset: Version of its operator set.
        sizes: The sizes of its data, None for each open one. If `sizes` is None, they are read from its first input.
    """
    if not is_standard(node, *SLICING):
        return None
    if CONTESTED in node.meta:  # `mark_contested` set it, because the node itself may not show the defect
        defect: Defect = node.meta[CONTESTED]
        return defect
    data = node.inputs[0] if node.inputs else None
    if sizes is None and data is not None:
        sizes = sizes_of(data)
    try:
        if node.op_type == "Slice":
            return _find_slice_disagreement(slice_spec(node, opset), sizes)
        return _find_split_disagreement(node, opset, sizes)
    except (InvalidSlice, DynamicSlice):
        return None


def _find_slice_disagreement(spec: SliceSpec, sizes: Sequence[int | None] | None) -> Defect | None:
    """Return the defect that makes engines disagree about a Slice, or None. `spec` may be invalid."""
    # A Slice without steps gets no entries: engines disagree only about steps other than 1.
    entries = list(zip(spec.starts, spec.ends, spec.steps or (), strict=False))
    if any(step < 0 and end in CONTESTED_ENDS for _, end, step in entries):
        return _DEFECTS["backward slice to the greatest integer"]
    # Without axes, onnxruntime's EliminateSlice ignores the steps. It drops the Slice if the bounds select everything.
    is_stepped = any(step != 1 for *_, step in entries)
    if is_stepped and spec.axes is None and all((start, end) == (0, INT64_MAX) for start, end, _ in entries):
        return _DEFECTS["steps without axes over whole axes"]
    axes = range(len(spec.starts)) if spec.axes is None else spec.axes
    for (start, _, step), axis in zip(entries, axes, strict=False):
        size = sizes[axis] if sizes is not None and -len(sizes) <= axis < len(sizes) else None
        if step < 0 and size and start < -size:
            return _DEFECTS["backwards from below the axis"]
    return None


def _find_split_disagreement(node: NodeView, opset: int, sizes: Sequence[int | None] | None) -> Defect | None:
    """Return the defect of a Split that has `num_outputs` and whose last part is known to be empty, otherwise None."""
    if opset < NUM_OUTPUTS_OPSET or "num_outputs" not in node.attributes or sizes is None:
        return None
    axis = normalize_axis(read_int(node, "axis", 0), len(sizes))
    if sizes[axis] is None:
        return None
    # The parts depend on the size of the split axis alone, so 0 can stand for open sizes of other axes.
    spec = split_spec(node, opset, tuple([size or 0 for size in sizes]))
    return _DEFECTS["num_outputs that leaves the last part empty"] if spec.sizes and spec.sizes[-1] == 0 else None

"""Rules to cut the inputs of an operator instead of its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import onnx_ir as ir

from onnx_ops.model.nodes import node_name, read_ints
from onnx_ops.passes.matchers import read_view_axes
from onnx_ops.passes.outcome import Skip
from sliceport.slicing import AxisSlice
from sliceport.slicing.spec import normalize_axis

Entries = dict[int, AxisSlice]
Shape = tuple[int, ...]
_ELEMENTWISE = """
    Abs Add And Cast Ceil Div Equal Floor Greater GreaterOrEqual Less LessOrEqual Mul Neg Not Or Sub Where Xor
"""
"""Elementwise operators that are exact or round once, so that an element does not depend on its position."""
_BROADCAST = ("broadcast", "axis")
_BROADCAST_OPSET = 7
_SHAPE_INPUT_OPSET = 5

CutInputs = Callable[
    [ir.Node, int, Sequence[Shape], Entries, Shape, Shape],
    tuple[dict[int, Entries], list[int] | None],
]
"""From a node, its opset, its inputs' shapes, the entries of the Slice, its input's shape and its output's: the entries
for each input to cut, and the new shape if the second input is one."""


def _cut_transpose(
    node: ir.Node, _: int, shapes: Sequence[Shape], entries: Entries, *__: Shape
) -> tuple[dict[int, Entries], None]:
    rank = len(shapes[0])
    permutation = read_ints(node, "perm") or range(rank)[::-1]
    if sorted(permutation) != list(range(rank)):
        raise Skip(f"perm={list(permutation)} of Transpose {node_name(node)!r} is not a permutation of {rank} axes")
    return {0: {permutation[axis]: entry for axis, entry in entries.items()}}, None


def _cut_view(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, _: Shape
) -> tuple[dict[int, Entries], None]:
    longer = max(len(whole), len(shapes[0]))
    axes = {normalize_axis(axis, longer) for axis in read_view_axes(node, opset)}
    others = [axis for axis in range(longer) if axis not in axes]
    if node.op_type == "Squeeze":
        return {0: {others[axis]: entry for axis, entry in entries.items()}}, None
    if any(axis in axes and not entry.is_whole(1) for axis, entry in entries.items()):
        raise Skip(f"it cuts an axis that Unsqueeze {node_name(node)!r} adds")
    return {0: {others.index(axis): entry for axis, entry in entries.items() if axis not in axes}}, None


def _cut_reshape(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, kept: Shape
) -> tuple[dict[int, Entries], list[int]]:
    if opset < _SHAPE_INPUT_OPSET or len(node.inputs) < 2:
        raise Skip(f"Reshape {node_name(node)!r} does not have its shape as an input")
    if 0 in whole:
        raise Skip(f"the output of Reshape {node_name(node)!r} has no elements")
    before = [*accumulate(shapes[0], lambda a, b: a * b, initial=1)]
    after = [*accumulate(whole, lambda a, b: a * b, initial=1)]
    places = {(before[axis], size): axis for axis, size in enumerate(shapes[0]) if size != 1}
    cuts = {}
    for axis, entry in entries.items():
        if entry.is_whole(whole[axis]):
            continue
        if (after[axis], whole[axis]) not in places:
            raise Skip(f"axis {axis} matches no input axis of Reshape {node_name(node)!r}")
        cuts[places[after[axis], whole[axis]]] = entry
    if 0 in kept:
        raise Skip("it selects no elements")
    return {0: cuts}, list(kept)


def _cut_elementwise(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, __: Shape
) -> tuple[dict[int, Entries], None]:
    if any(name in node.attributes for name in _BROADCAST):
        raise Skip(
            f"{node.op_type} {node_name(node)!r} broadcasts by its attributes, as before opset {_BROADCAST_OPSET}"
        )
    if len(shapes) > 1 and opset < _BROADCAST_OPSET and any(shape != whole for shape in shapes):
        raise Skip(f"{node.op_type} {node_name(node)!r} does not broadcast, and its inputs differ in shape")
    cuts = {}
    for i, shape in enumerate(shapes):
        if not _can_broadcast(shape, whole):
            raise Skip(f"{node.op_type} {node_name(node)!r} reads shapes that do not broadcast to its output")
        missing = len(whole) - len(shape)
        cut = {a - missing: e for a, e in entries.items() if a >= missing and shape[a - missing] == whole[a]}
        if cut and node.inputs[i] is not None:
            cuts[i] = cut
    return cuts, None


def _can_broadcast(shape: Shape, whole: Shape) -> bool:
    """Return whether a tensor broadcasts to a shape."""
    missing = len(whole) - len(shape)
    return missing >= 0 and all(size in (1, whole[missing + i]) for i, size in enumerate(shape))


def _cut_expand(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, kept: Shape
) -> tuple[dict[int, Entries], list[int]]:
    cuts, _ = _cut_elementwise(node, opset, shapes[:1], entries, whole, kept)
    return cuts, list(kept)


CUT_INPUTS: dict[str, CutInputs] = {
    "Transpose": _cut_transpose,
    "Unsqueeze": _cut_view,
    "Squeeze": _cut_view,
    "Reshape": _cut_reshape,
    "Expand": _cut_expand,
    **dict.fromkeys(_ELEMENTWISE.split(), _cut_elementwise),
}
"""By operator."""

"""A Slice moves above what computes more than it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import constant_node, slice_node
from onnx_ops.passes.matchers import attribute_list, view_axes, written_slice
from sliceport.errors import InvalidSlice
from sliceport.slicing import AxisSlice
from sliceport.slicing.spec import cut_shape, normalize_axis

Entries = dict[int, AxisSlice]
Shape = tuple[int, ...]
_ELEMENTWISE = """
    Abs Add And Cast Ceil Div Equal Floor Greater GreaterOrEqual Less LessOrEqual Mul Neg Not Or Sub Where Xor
"""
"""Operators of which an element comes out the same wherever it stands: exact, or rounded once."""


_BROADCAST = ("broadcast", "axis")
_BROADCAST_OPSET = 7
_SHAPE_INPUT_OPSET = 5


class MoveSlicesUpPass(NodePass):
    """Let a Slice stand before the operator whose output it cuts, so that this computes only what is kept.

    Not one of `ALL`: it changes what other operators compute on.

    1. Transpose: the axes are those before it.
    2. Unsqueeze, Squeeze: the axes are counted without the new and the dropped ones; a new axis is kept whole.
    3. Reshape, of known shapes: each axis that is cut is one of its input with the same size and the same place in
       memory.
    4. Operators on each element, rounded once at most: each input is cut on the axes that it does not broadcast.
    5. Expand, of known shapes: as 4, and the shape is that of what is kept.

    All sizes are known, nothing else reads the operator's output, and fewer bytes are written afterwards.

    Given: y = Slice(Transpose(x[4, 6], perm=[1, 0]), [0], [2], [0])
    Result: y = Transpose(Slice(x, [0], [2], [1]), perm=[1, 0])
    """

    op_types = ("Slice",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        value = node.inputs[0] if node.inputs else None
        above = None if value is None else value.producer()
        moves = _MOVES[above.op_type] if above is not None and is_operator(above, *_MOVES) else None
        if value is None or above is None or above.graph is not node.graph or moves is None:
            return None
        if value.is_graph_output() or len(value.uses()) != 1:
            raise NotApplied(f"{above.op_type} {above.name!r} before it is read elsewhere too")
        shapes = [self._known(read) for read in above.inputs]
        whole = self._known(value)
        entries = written_slice(node, opset, whole)
        kept = cut_shape(entries, whole)
        try:
            cuts, shape = moves(above, opset, shapes, entries, whole, kept)
        except InvalidSlice as reason:
            raise NotApplied(str(reason)) from None
        self._check_bytes(cuts, shapes, kept, whole)
        new: list[ir.Node] = []
        inputs = list(above.inputs)
        for i, cut in cuts.items():
            read = inputs[i]
            assert read is not None
            made = slice_node(read, cut, opset)
            if made is None:
                raise NotApplied("it would need steps, which Slice has from opset 10 on")
            new += made
            new[-1].name = node.name if len(cuts) == 1 else f"{node.name}_{i}"
            inputs[i] = new[-1].outputs[0]
            self.describe(new[-1].outputs[0], read, cut_shape(cut, shapes[i] or ()), node.outputs[0])
        if shape is not None:
            new.append(constant_node(shape))
            inputs[1] = new[-1].outputs[0]
        new.append(ir.node(above.op_type, inputs, dict(above.attributes), name=above.name))
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return f"a Slice before {above.op_type}", ()

    def _known(self, value: ir.Value | None) -> Shape:
        """A shape that is known; of a constant that is left out, that of a scalar.

        Raises:
            NotApplied: It is not.
        """
        if value is None:
            return ()
        sizes = self.sizes(value)
        known = [size for size in sizes or () if size is not None]
        if sizes is None or len(known) < len(sizes):
            raise NotApplied("not all sizes are known")
        return tuple(known)

    def _check_bytes(self, cuts: Mapping[int, Entries], shapes: Sequence[Shape], kept: Shape, whole: Shape) -> None:
        """Compare what is written before and after, in elements: the operator's output and the Slices'."""
        before = prod(whole) + prod(kept)
        after = prod(kept) + sum(prod(cut_shape(cut, shapes[i])) for i, cut in cuts.items())
        if after >= before:
            raise NotApplied("above it, not fewer bytes would be moved")


Move = Callable[
    [ir.Node, int, Sequence[Shape], Entries, Shape, Shape],
    tuple[dict[int, Entries], list[int] | None],
]
"""From a node, its opset, its inputs' shapes, the entries, the whole shape and that of what is kept: how each input is
cut, and the new value of the second input if it is a shape."""


def _above_transpose(
    node: ir.Node, _: int, shapes: Sequence[Shape], entries: Entries, *__: Shape
) -> tuple[dict[int, Entries], None]:
    rank = len(shapes[0])
    permutation = attribute_list(node, "perm") or range(rank)[::-1]
    if sorted(permutation) != list(range(rank)):
        raise NotApplied(f"the perm of Transpose {node.name!r} is none of {rank} axes")
    return {0: {permutation[axis]: entry for axis, entry in entries.items()}}, None


def _above_view(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, _: Shape
) -> tuple[dict[int, Entries], None]:
    longer = max(len(whole), len(shapes[0]))
    axes = {normalize_axis(axis, longer) for axis in view_axes(node, opset)}
    others = [axis for axis in range(longer) if axis not in axes]
    if node.op_type == "Squeeze":
        return {0: {others[axis]: entry for axis, entry in entries.items()}}, None
    if any(axis in axes and not entry.is_whole(1) for axis, entry in entries.items()):
        raise NotApplied("a new axis is cut")
    return {0: {others.index(axis): entry for axis, entry in entries.items() if axis not in axes}}, None


def _above_reshape(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, kept: Shape
) -> tuple[dict[int, Entries], list[int]]:
    if opset < _SHAPE_INPUT_OPSET or len(node.inputs) < 2:
        raise NotApplied(f"Reshape {node.name!r} has its shape as an attribute, or none")
    if 0 in whole:
        raise NotApplied("there is nothing to be moved")
    before = [*accumulate(shapes[0], lambda a, b: a * b, initial=1)]
    after = [*accumulate(whole, lambda a, b: a * b, initial=1)]
    places = {(before[axis], size): axis for axis, size in enumerate(shapes[0]) if size != 1}
    moved = {}
    for axis, entry in entries.items():
        if entry.is_whole(whole[axis]):
            continue
        if (after[axis], whole[axis]) not in places:
            raise NotApplied(f"axis {axis} is none of what Reshape {node.name!r} reads")
        moved[places[after[axis], whole[axis]]] = entry
    if 0 in kept:
        raise NotApplied("nothing is selected")
    return {0: moved}, list(kept)


def _above_elementwise(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, __: Shape
) -> tuple[dict[int, Entries], None]:
    if any(name in node.attributes for name in _BROADCAST):
        raise NotApplied(f"{node.op_type} {node.name!r} says by attributes which axes go together")
    if len(shapes) > 1 and opset < _BROADCAST_OPSET and any(shape != whole for shape in shapes):
        raise NotApplied(f"{node.op_type} {node.name!r} does not broadcast, and its inputs differ in shape")
    cuts = {}
    for i, shape in enumerate(shapes):
        if not _fits(shape, whole):
            raise NotApplied(f"{node.op_type} {node.name!r} reads shapes that do not go together")
        missing = len(whole) - len(shape)
        cut = {a - missing: e for a, e in entries.items() if a >= missing and shape[a - missing] == whole[a]}
        if cut and node.inputs[i] is not None:
            cuts[i] = cut
    return cuts, None


def _fits(shape: Shape, whole: Shape) -> bool:
    """Whether a tensor broadcasts to a shape."""
    missing = len(whole) - len(shape)
    return missing >= 0 and all(size in (1, whole[missing + i]) for i, size in enumerate(shape))


def _above_expand(
    node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, whole: Shape, kept: Shape
) -> tuple[dict[int, Entries], list[int]]:
    cuts, _ = _above_elementwise(node, opset, shapes[:1], entries, whole, kept)
    return cuts, list(kept)


_MOVES: dict[str, Move] = {
    "Transpose": _above_transpose,
    "Unsqueeze": _above_view,
    "Squeeze": _above_view,
    "Reshape": _above_reshape,
    "Expand": _above_expand,
    **dict.fromkeys(_ELEMENTWISE.split(), _above_elementwise),
}

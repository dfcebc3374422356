"""A Slice moves before an operator that computes more than the Slice keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from operator import mul

import onnx_ir as ir

from onnx_ops.model.element_type import BITS
from onnx_ops.model.nodes import is_valid_operator, node_name, read_ints
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import SHAPE_INPUT_OPSET, build_constant, build_slice
from onnx_ops.passes.edits import annotate_nodes
from onnx_ops.passes.matchers import data_of, read_axes, read_slice
from onnx_ops.passes.outcome import Skip
from sliceport.slicing import AxisSlice
from sliceport.slicing.spec import cut_shape, normalize_axis

Entries = dict[int, AxisSlice]
Shape = tuple[int, ...]
_ELEMENTWISE = """
    Abs Add And Cast Ceil Div Equal Floor Greater GreaterOrEqual Less LessOrEqual Mul Neg Not Or Sub Where Xor
"""
"""Elementwise operators that are exact or round once, so that an element does not depend on its position."""
_BROADCAST = ("broadcast", "axis")
"""Attributes that describe how elementwise operators broadcast before `_BROADCAST_OPSET`."""
_BROADCAST_OPSET = 7
"""The first operator set in which the operands of elementwise operators broadcast as in NumPy."""
_Cuts = dict[int, Entries]
"""For each input that is cut, the start, end and step of each axis."""


class MoveSlicesUpPass(NodePass, name="up", after="scalar"):
    """Move a Slice before the operator whose output it cuts, so that the operator computes only what is kept.

    The operator is a Transpose, Unsqueeze, Squeeze, Reshape or Expand, or elementwise. The pass is not run by default,
    because it changes the inputs of other operators.

    1. Transpose: the Slice cuts the axes of the Transpose's input.
    2. Unsqueeze, Squeeze: the axes are counted as in the input; a new axis must be kept whole.
    3. Reshape: each axis that is cut is also an axis of its input, with the same size and the same stride.
    4. Elementwise operators that are exact or round once: each input is cut on the axes that are not broadcast.
    5. Expand: its data are cut as in 4, and its second input becomes the shape of what is kept.

    All sizes must be known, nothing else may read the operator's output, and fewer bytes must be written afterwards.

    Given: y = Slice(Transpose(x[4, 6], perm=[1, 0]), [0], [2], [0])
    Result: y = Transpose(Slice(x, [0], [2], [1]), perm=[1, 0])

    Fires:
        - Transpose: `a = Transpose(x[4, 6], perm=[1, 0]); y = Slice(a, [1], [3], [0], [1])`
        - Transpose reversed: `a = Transpose(x[4, 6, 2]); y = Slice(a, [1], [3], [1], [1])`
        - Unsqueeze: `a = Unsqueeze(x[4], [0]); y = Slice(a, [1], [3], [1], [1])`
        - Squeeze: `a = Squeeze(x[1, 4], [0]); y = Slice(a, [1], [3], [0], [1])`
        - Reshape: `a = Reshape(x[2, 3, 4], [6, 4]); y = Slice(a, [1], [3], [1], [1])`
        - elementwise: `a = Mul(x[4, 6], [[2.0], [3.0], [4.0], [5.0]]); y = Slice(a, [1], [3], [1], [1])`
        - Expand: `a = Expand(x[1, 6], [4, 6]); y = Slice(a, [0, 1], [2, 3])`

    Stays:
        - read twice: `a = Transpose(x[4, 6]); y = Slice(a, [1], [3], [0], [1]); z = Neg(a)`:
          "the output of Transpose 'n0', which it cuts, has other readers or is an output of the graph"
        - cut new axis: `a = Unsqueeze(x[4], [0]); y = Slice(a, [1], [1], [0], [1])`: "it cuts an axis that Unsqueeze"
        - joined axis: `a = Reshape(x[2, 3], [6]); y = Slice(a, [1], [3], [0], [1])`:
          "axis 0 matches no input axis of Reshape"
        - rounded: `a = Exp(x[4]); y = Slice(a, [1], [3], [0], [1])`
        - fewer elements of more bytes: `y = Slice(Greater(x[6], z[6]), [0], [2], [0])`:
          "moving it would not reduce the bytes that are written"
        - not fewer bytes: `a = Add(x[4], [1.0, 2.0, 3.0, 4.0]); y = Slice(a, [0], [3], [0], [1])`:
          "not reduce the bytes"
        - open: `a = Transpose(x[n, 4]); y = Slice(a, [1], [3], [0], [1])`: "not all sizes"
    """

    op_types = ("Slice",)
    is_default = False

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        value = data_of(node)
        above = value.producer()  # the operator before which the Slice moves
        if not is_valid_operator(above, *_CUT_INPUTS) or above.graph is not node.graph:
            return  # not nearly a match, so nothing is reported
        if value.is_graph_output() or count_uses(value) != 1:
            above_output = f"the output of {above.op_type} {node_name(above)!r}, which it cuts,"
            raise Skip(f"{above_output} has other readers or is an output of the graph")
        shapes = [self._known_shape(source) for source in above.inputs]
        out_shape = self._known_shape(value)
        entries = read_slice(node, opset, out_shape)
        cuts = _CUT_INPUTS[above.op_type](above, opset, shapes, entries, out_shape)
        bits = sum(self._count_bits(above.inputs[index], cut_shape(cut, shapes[index])) for index, cut in cuts.items())
        if bits >= self._count_bits(value, out_shape):
            raise Skip("moving it would not reduce the bytes that are written")
        new_nodes: list[ir.Node] = []
        slices: list[ir.Node] = []
        inputs = list(above.inputs)
        for index, cut in cuts.items():
            source = inputs[index]
            assert source is not None
            new_nodes += build_slice(source, cut, opset)
            slices.append(moved := new_nodes[-1])  # the Slice comes after its constants
            moved.name = node.name if len(cuts) == 1 else f"{node_name(node)}_{index}"
            inputs[index] = moved.outputs[0]
            self.set_value_info(moved.outputs[0], source, cut_shape(cut, shapes[index]), node.outputs[0])
        if above.op_type in ("Reshape", "Expand"):  # their second input is the shape of the output
            new_nodes.append(build_constant(cut_shape(entries, out_shape)))
            inputs[1] = new_nodes[-1].outputs[0]
        new_nodes.append(ir.node(above.op_type, inputs, dict(above.attributes), name=above.name))
        annotate_nodes(new_nodes[-1:], [above])
        self.replace_nodes([node], new_nodes, {node.outputs[0]: new_nodes[-1].outputs[0]}, slices)
        # An Expand gets no Slice, only a smaller shape, if its data are broadcast along all axes that are cut.
        self.report_change(node, f"{'a Slice before' if slices else 'a smaller'} {above.op_type}")

    def _count_bits(self, value: ir.Value | None, shape: Shape) -> int:
        """Count the bits of a tensor with this shape and the type of `value`. An element of unknown type has 8 bits."""
        dtype = None if value is None else self.value_info.dtype(value)
        return prod(shape) * (8 if dtype is None else BITS[dtype])

    def _known_shape(self, value: ir.Value | None) -> Shape:
        """Return the shape of a value. An absent input has the shape ().

        Raises:
            Skip: A size is not known.
        """
        if value is None:
            return ()
        shape = self.static_shape(value)
        if shape is None:
            raise Skip(f"not all sizes of {value.name!r} are known")
        return shape


# Each function below raises one of `SKIPS` if slices of the inputs cannot replace the Slice of the output. `shapes` are
# the shapes of the inputs, `out_shape` is the shape of the output, and `entries` are the start, end and step by axis.


def _cut_transpose(node: ir.Node, _opset: int, shapes: Sequence[Shape], entries: Entries, _out_shape: Shape) -> _Cuts:
    """Return the bounds, by input and axis, that slice the input of a Transpose instead of its output."""
    rank = len(shapes[0])
    permutation = read_ints(node, "perm") or range(rank)[::-1]  # by default, the axes are reversed
    if sorted(permutation) != list(range(rank)):
        raise Skip(f"perm={list(permutation)} of Transpose {node_name(node)!r} is not a permutation of {rank} axes")
    return {0: {permutation[axis]: entry for axis, entry in entries.items()}}


def _cut_squeeze(node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, out_shape: Shape) -> _Cuts:
    """Return the bounds, by input and axis, that slice the input of a Squeeze or Unsqueeze instead of its output."""
    # The attribute or input `axes` refers to the longer shape: the input of a Squeeze, the output of an Unsqueeze.
    longer, shorter = (shapes[0], out_shape) if node.op_type == "Squeeze" else (out_shape, shapes[0])
    axes = {normalize_axis(axis, len(longer)) for axis in read_axes(node, opset)}
    shared_axes = [axis for axis in range(len(longer)) if axis not in axes]
    if len(shared_axes) != len(shorter):
        raise Skip(f"the axes of {node.op_type} {node_name(node)!r} do not fit its shapes")
    if node.op_type == "Squeeze":
        return {0: {shared_axes[axis]: entry for axis, entry in entries.items()}}
    if any(axis in axes and not entry.is_whole(1) for axis, entry in entries.items()):
        raise Skip(f"it cuts an axis that Unsqueeze {node_name(node)!r} adds")
    return {0: {shared_axes.index(axis): entry for axis, entry in entries.items() if axis not in axes}}


def _cut_reshape(node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, out_shape: Shape) -> _Cuts:
    """Return the bounds, by input and axis, that slice the input of a Reshape instead of its output."""
    if opset < SHAPE_INPUT_OPSET or len(node.inputs) < 2:
        raise Skip(f"Reshape {node_name(node)!r} does not have its shape as an input")
    if 0 in out_shape:
        raise Skip(f"the output of Reshape {node_name(node)!r} has no elements")
    # An input axis matches an output axis if both have the same size and the same product of the sizes before them.
    input_products = [*accumulate(shapes[0], mul, initial=1)]
    output_products = [*accumulate(out_shape, mul, initial=1)]
    input_axes = {(input_products[axis], size): axis for axis, size in enumerate(shapes[0]) if size != 1}
    cuts = {}
    for axis, entry in entries.items():
        if entry.is_whole(out_shape[axis]):
            continue
        if (output_products[axis], out_shape[axis]) not in input_axes:
            raise Skip(f"axis {axis} matches no input axis of Reshape {node_name(node)!r}")
        cuts[input_axes[output_products[axis], out_shape[axis]]] = entry
    if 0 in cut_shape(entries, out_shape):  # the new shape would contain 0, which copies a size of the input
        raise Skip("it selects no elements")
    return {0: cuts}


def _cut_elementwise(node: ir.Node, opset: int, shapes: Sequence[Shape], entries: Entries, out_shape: Shape) -> _Cuts:
    """Return the bounds, by input and axis, that slice the inputs of an elementwise operator or of an Expand."""
    if any(name in node.attributes for name in _BROADCAST):
        raise Skip(
            f"{node.op_type} {node_name(node)!r} broadcasts by its attributes, as before opset {_BROADCAST_OPSET}"
        )
    if len(shapes) > 1 and opset < _BROADCAST_OPSET and any(shape != out_shape for shape in shapes):
        raise Skip(f"{node.op_type} {node_name(node)!r} does not broadcast, and its inputs differ in shape")
    cuts = {}
    # The second input of an Expand is a shape, which is not cut here.
    for index, shape in enumerate(shapes[:1] if node.op_type == "Expand" else shapes):
        # The axes of an input match the last axes of the output. An axis that is broadcast is not cut.
        added_rank = len(out_shape) - len(shape)
        if added_rank < 0 or any(size not in (1, out_shape[axis + added_rank]) for axis, size in enumerate(shape)):
            raise Skip(f"{node.op_type} {node_name(node)!r} reads shapes that do not broadcast to its output")
        shifted = {axis - added_rank: entry for axis, entry in entries.items() if axis >= added_rank}
        cut = {axis: entry for axis, entry in shifted.items() if shape[axis] == out_shape[axis + added_rank]}
        if cut and node.inputs[index] is not None:
            cuts[index] = cut
    return cuts


_CUT_INPUTS: dict[str, Callable[[ir.Node, int, Sequence[Shape], Entries, Shape], _Cuts]] = {
    "Transpose": _cut_transpose,
    "Unsqueeze": _cut_squeeze,
    "Squeeze": _cut_squeeze,
    "Reshape": _cut_reshape,
    "Expand": _cut_elementwise,
    **dict.fromkeys(_ELEMENTWISE.split(), _cut_elementwise),
}
"""The function for each operator before which a Slice can move."""

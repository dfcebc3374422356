"""Gathers by constant indices, and Splits with one part that is read, become Slices."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.nodes import constant, is_valid_operator
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_slice, build_with_axes
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.matchers import data_of, read_exact_split, read_gather
from sliceport.slicing import AxisSlice


class GatherToSlicePass(NodePass, name="gather", after="merge"):
    """Replace a Gather by constant indices by a Slice.

    The indices must be equally spaced.

    1. The indices are a list, and an arithmetic progression.

    The size of the axis must be known, and all indices in range. For an index out of range, a Gather fails, but a Slice
    selects fewer elements.

    Given: y = Gather(x[8], [1, 3, 5], axis=0)
    Result: y = Slice(x, [1], [6], [0], [2])

    Not rewritten: a scalar index, for which see `ScalarGatherToSlicePass` and `SiblingsToSplitPass`; steps before
    opset 10.

    Fires:
        - upwards: `y = Gather(x[9], [1, 2, 3])`
        - progression: `y = Gather(x[9], [-1, 6, 4])`
        - one of a list: `y = Gather(x[9], [5])`

    Stays:
        - repeated: `y = Gather(x[9], [1, 1])`: "not an arithmetic progression"
        - jumping: `y = Gather(x[9], [0, 1, 3])`: "not an arithmetic progression"
        - open: `y = Gather(x[n], [0, 1])`: "does not fail at an index out of range"
        - beyond: `y = Gather(x[2], [1, 2])`: "out of range"
        - old by steps (opset 9): `y = Gather(x[9], [3, 5])`:
          "the new Slice needs step 2 on axis 0, but Slice has no steps before opset 10, and this is opset 9"
        - old and backwards (opset 9): `y = Gather(x[9], [3, 2])`: "needs step -1"
    """

    op_types = ("Gather",)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        indices = None if node.inputs[1] is None else constant(node.inputs[1])
        if indices is None or len(indices.shape) != 1:
            return
        axis, selected, _ = read_gather(node, opset, self.sizes(data))
        self.replace_node(node, build_slice(data, {axis: AxisSlice.of(selected)}, opset))


class ScalarGatherToSlicePass(NodePass, name="scalar", after="nested"):
    """Replace a Gather of one constant index, which drops the axis, by a Slice and a Squeeze.

    It is not run by default, because onnxruntime's CPU provider takes up to 1.8 times as long for the two as for the
    Gather. It helps engines that have no Gather, or a slow one.

    1. The index is a scalar, and in range for an axis of known size.

    Given: y = Gather(x[8, 3], 2, axis=0)
    Result: y = Squeeze(Slice(x, [2], [3], [0]), [0])

    Not rewritten: a Gather from a Shape, which runs on the CPU anyway.

    Fires:
        - `y = Gather(x[4, 3], -1, axis=1)`

    Stays:
        - of a Shape: `s = Shape(x[n, 3]); y = Gather(s, 0)`
        - open: `y = Gather(x[n, 3], 0)`: "does not fail at an index out of range"
    """

    op_types = ("Gather",)
    is_default = False

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        indices = None if node.inputs[1] is None else constant(node.inputs[1])
        if indices is None or len(indices.shape) != 0:
            return
        if is_valid_operator(self.edits.identities.source_of(data).producer(), "Shape"):
            return  # nothing is gained, because engines compute shapes on the CPU
        shape = self.sizes(data)
        axis, selected, _ = read_gather(node, opset, shape)
        assert shape is not None  # or `read_gather` would have raised Skip
        slice_nodes = build_slice(data, {axis: AxisSlice.of(selected)}, opset)
        slice_nodes[-1].name = node.name
        sliced = slice_nodes[-1].outputs[0]
        self.set_value_info(sliced, data, (*shape[:axis], 1, *shape[axis + 1 :]), node.outputs[0])
        new_nodes = [*slice_nodes, *build_with_axes("Squeeze", sliced, [axis], opset)]
        successors = {node.outputs[0]: new_nodes[-1].outputs[0]}
        self.replace_nodes([node], new_nodes, successors, annotated=slice_nodes[-1:])
        self.report_change(node, "Slice and Squeeze")


class SplitToSlicePass(NodePass, name="split", after="identity"):
    """Replace a Split by a Slice if only one part is read, so that only that part is copied.

    1. The part sizes and the size of the axis are known. Otherwise the Split may fail, and a Slice would not.

    Given: a, b = Split(x[4], axis=0); y = Neg(b)
    Result: b = Slice(x, [2], [4], [0]); y = Neg(b)

    Fires:
        - `a, b = Split(x[4], [1, 3]); y = Neg(b)`

    Stays:
        - two read: `y, z = Split(x[4], [1, 3])`
        - open: `a, y = Split(x[n], [1, 3])`: "is not known"
    """

    op_types = ("Split",)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        if sum(map(is_used, node.outputs)) != 1:
            return
        data = data_of(node)
        spec = read_exact_split(node, opset, self.sizes(data))
        slices = {
            output: build_slice(data, {spec.axis: AxisSlice(*bounds, 1)}, opset)
            for output, bounds in zip(node.outputs, spec.bounds, strict=True)
            if is_used(output)
        }
        self.replace_each_output(node, slices)
        self.report_change(node, "Slice")

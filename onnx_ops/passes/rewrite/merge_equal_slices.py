"""Slices, Splits and Gathers that select the same elements of one value become one."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from onnx_ops.model.nodes import is_valid_operator, read_int
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_with_axes
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.matchers import data_of, read_exact_split, read_gather, read_slice, read_split
from onnx_ops.passes.outcome import SKIPS, Skip
from onnx_ops.passes.reshape_fusion import WOULD_FAIL
from onnx_ops.passes.siblings import read_single_axis_slice
from sliceport.slicing import INT64_MAX


class MergeEqualSlicesPass(NodePass, name="merge", after="fold"):
    """Merge Slices, Splits and Gathers that select the same elements of one value, in one graph.

    All readers then read the first of the nodes. A Slice may also equal a part of a Split.

    1. Slices with the same constant starts, ends and steps, whatever the order of the axes.
    2. Splits into the same parts, or a Split if earlier nodes select all of its parts that are read.
    3. Gathers of the same constant indices.
    4. A Slice that selects a part of an earlier Split.
    5. A Gather of the only index that an earlier Slice, or a part of an earlier Split, selects: it becomes a Squeeze.

    The outputs of equal Shape nodes count as one value for two nodes with the same operator and parameters.

    Given: a = Slice(x[4], [1], [3], [0]); b = Slice(x, [1], [3], [0], [1]); y = Add(a, b)
    Result: a = Slice(x, [1], [3], [0]); y = Add(a, a)

    An output of the graph becomes an Identity. Not merged: bounds that are not constant.

    Fires:
        - spelled otherwise: `a = Slice(x[4], [1], [3], [0], [1]); b = Slice(x, [1], [3]); y = Add(a, b)`
        - open: `a = Slice(x[n], [-3], [-1], [0], [1]); b = Slice(x, [-3], [-1], [0], [1]); y = Add(a, b)`
        - Gathers: `a = Gather(x[4], 1); b = Gather(x, -3); y = Add(a, b)`
        - Shapes: `s = Shape(x[n]); t = Shape(x); a = Gather(s, 0); b = Gather(t, 0); y = Add(a, b)`
        - with a part: `a, b = Split(x[4], [1, 3]); c = Slice(x, [1], [4], [0], [1]); y = Add(b, c)`
        - with a part of one: `a, b = Split(x[4], [1, 3]); c = Gather(x, 0); y = Mul(b, c)`
        - Splits: `a, b = Split(x[4], [1, 3]); c, d, e = Split(x, [1, 0, 3]); f = Mul(a, e); y = Mul(b, f)`

    Stays:
        - others: `y = Slice(x[4], [0], [3], [0], [1]); z = Slice(x, [0], [2], [0], [1])`
        - of others: `m = Neg(x[4]); y = Slice(x, [0], [3], [0], [1]); z = Slice(m, [0], [3], [0], [1])`
        - in a GLU: `a, b = Split(x[4], [2, 2]); c = Slice(x, [2], [4], [0], [1]); d = Sigmoid(c); y = Mul(a, d);
          z = Neg(b)`: "is multiplied by the Sigmoid of another"
        - with a copied size: `s = Shape(x[n, m]); a = Slice(s, [1], [2], [0], [1]); b = Unsqueeze(Gather(s, 1), [0]);
          t = Concat([0], b, axis=0); y = Reshape(x, t); z = Neg(a)`:
          "a constant with a 0 and a -1, which fails at size 0"
    """

    op_types = ("Slice", "Split", "Gather")

    def _apply(self) -> None:
        # The first output with each key of `_list_keys`.
        self._outputs_by_key: dict[Hashable, ir.Value] = {}
        super()._apply()
        self._outputs_by_key.clear()

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        try:
            keys_by_output = self._list_keys(node, opset)
        except SKIPS:  # no sign that an equal node exists, so there is nothing to report
            return
        used = [(output, keys) for output, keys in zip(node.outputs, keys_by_output, strict=True) if is_used(output)]
        equal = {
            output: self._outputs_by_key[key]
            for output, keys in used
            for key in reversed(keys)  # reversed, so that the first key is written last, and stays
            if key in self._outputs_by_key
        }
        if used and len(equal) == len(used):
            self.replace_outputs(node, equal)
            return
        if node.op_type == "Gather":
            # An earlier Slice or Split may select the same single index, but keep the axis: a Squeeze drops it.
            axis, indices, drops_axis = read_gather(node, opset, self.sizes(node.inputs[0]))
            data = self.edits.identities.source_of(data_of(node))
            selected = self._outputs_by_key.get(_run_key(node, data, axis, indices))
            if drops_axis and selected is not None:
                new_nodes = build_with_axes("Squeeze", selected, [axis], opset)
                if self.breaks_reshape({node.outputs[0]: new_nodes[-1].outputs[0]}, new_nodes):
                    raise Skip(WOULD_FAIL)
                self.replace_node(node, new_nodes)
                return
        for output, keys in zip(node.outputs, keys_by_output, strict=True):
            for key in keys:
                self._outputs_by_key.setdefault(key, output)

    def _list_keys(self, node: ir.Node, opset: int) -> list[list[Hashable]]:
        """Return a list of keys for each output. Outputs that share a key select the same elements.

        The last key of an output holds the parameters of the node. A key before the last is from `_list_run_keys`.
        """
        data = self.edits.identities.source_of(data_of(node))
        shape = self.sizes(node.inputs[0])
        prefix = (id(node.graph), _merge_key(data), node.op_type)
        if node.op_type == "Gather":
            return [[(*prefix, read_gather(node, opset, shape))]]
        if node.op_type == "Slice":
            entries = tuple(sorted(read_slice(node, opset, shape).items()))
            return [[*self._list_run_keys(node, data, opset), (*prefix, entries)]]
        spec = read_split(node, opset, shape)
        runs = self._list_run_keys(node, data, opset)  # empty, or one for each output
        return [[*runs[index : index + 1], (*prefix, spec, index)] for index in range(len(node.outputs))]

    def _list_run_keys(self, node: ir.Node, data: ir.Value, opset: int) -> list[Hashable]:
        """Return a key for each output if a Slice or Split selects consecutive indices of one axis of known size.

        Otherwise the list is empty. `data` is the node's input, or the value that Identity nodes copy to this input.
        """
        shape = self.sizes(node.inputs[0])
        try:
            if node.op_type == "Split":
                spec = read_exact_split(node, opset, shape)
                return [_run_key(node, data, spec.axis, range(*bounds)) for bounds in spec.bounds]
            axis_and_run = read_single_axis_slice(node, opset, shape)
        except SKIPS:
            return []
        return [] if axis_and_run is None else [_run_key(node, data, *axis_and_run)]


def _run_key(node: ir.Node, data: ir.Value, axis: int, run: range) -> Hashable:
    """Return the key of a node that selects the indices `run` of an axis, the same for Slices, Splits and Gathers."""
    return id(node.graph), data, axis, run


def _merge_key(data: ir.Value) -> Hashable:
    """Return a key of the value. Outputs of Shape nodes with the same input, start and end have the same key."""
    shape = data.producer()
    if shape is None or not is_valid_operator(shape, "Shape"):
        return data
    try:
        return shape.inputs[0], read_int(shape, "start", 0), read_int(shape, "end", INT64_MAX)
    except SKIPS:
        return data

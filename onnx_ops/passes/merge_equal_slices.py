"""Slices, Splits and Gathers that select the same elements of one value become one."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator, read_int
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_squeeze
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.matchers import data_of, read_exact_split, read_gather, read_slice, read_split
from onnx_ops.passes.outcome import SKIPS
from onnx_ops.passes.siblings import read_run
from sliceport.slicing import INT64_MAX


class MergeEqualSlicesPass(NodePass):
    """Merge Slices, Splits and Gathers that select the same elements of one value, in one graph.

    All readers then read the first of the nodes.

    1. Slices with the same constant starts, ends and steps, whatever the order of the axes.
    2. Splits into the same parts, or a Split whose parts that are read all exist already.
    3. Gathers of the same constant indices.
    4. A Slice that selects a part of an earlier Split.
    5. A Gather of the only index that a part of an earlier Split, or an earlier Slice, selects: it becomes a Squeeze.

    Two Shape nodes of one value count as one value.

    Given: a = Slice(x[4], [1], [3], [0]); b = Slice(x, [1], [3], [0], [1]); y = Add(a, b)
    Result: a = Slice(x, [1], [3], [0]); y = Add(a, a)

    An output of the graph becomes an Identity. Not merged: bounds that are not constant.
    """

    op_types = ("Slice", "Split", "Gather")

    def apply(self, model: ir.Model) -> None:
        """Rewrite the model; see the class."""
        self._values: dict[Hashable, ir.Value] = {}
        super().apply(model)
        self._values = {}

    def rewrite(self, node: ir.Node, opset: int) -> None:
        """Rewrite a node that matches; see the class."""
        try:
            selections = self._list_selections(node, opset)
        except SKIPS:
            return
        equal = {
            output: next((self._values[key] for key in keys if key in self._values), None)
            for output, keys in zip(node.outputs, selections, strict=True)
            if is_used(output)
        }
        if equal and None not in equal.values():
            self.report_change(node, self.replace_outputs(node, equal))
            return
        if node.op_type == "Gather" and (squeezed := self._find_squeezed(node, opset)) is not None:
            part, axis = squeezed
            self.replace_node(node, build_squeeze(part, [axis], opset))
            self.report_change(node, "Squeeze")
            return
        for output, keys in zip(node.outputs, selections, strict=True):
            for key in keys:
                self._values.setdefault(key, output)

    def _list_selections(self, node: ir.Node, opset: int) -> list[list[Hashable]]:
        """Return keys for the selection of each output: the run of an axis if it is known, and the parameters."""
        data = self.edits.identities.source_of(data_of(node))
        shape = self.sizes(node.inputs[0])
        source = (id(node.graph), _merge_key(data), node.op_type)
        if node.op_type == "Gather":
            return [[(*source, read_gather(node, opset, shape))]]
        if node.op_type == "Slice":
            entries = tuple(sorted(read_slice(node, opset, shape).items()))
            return [[*self._list_runs(node, data, opset), (*source, entries)]]
        spec = read_split(node, opset, shape)
        runs = self._list_runs(node, data, opset)  # empty, or one for each output
        return [[*runs[index : index + 1], (*source, spec, index)] for index in range(len(node.outputs))]

    def _list_runs(self, node: ir.Node, data: ir.Value, opset: int) -> list[Hashable]:
        """Return a key for each output if the node cuts one axis of known size into runs of neighbours; else none.

        Args:
            node: A Slice or Split.
            data: The source of its data; see `Identities`.
            opset: The version of its operator set.
        """
        shape = self.sizes(node.inputs[0])
        try:
            if node.op_type == "Split":
                spec = read_exact_split(node, opset, shape)
                return [(id(node.graph), data, spec.axis, range(*bounds)) for bounds in spec.bounds]
            run = read_run(node, opset, shape)
        except SKIPS:
            return []
        return [] if run is None else [(id(node.graph), data, *run)]

    def _find_squeezed(self, node: ir.Node, opset: int) -> tuple[ir.Value, int] | None:
        """Return a value that holds only the index of a Gather, and the axis to drop; None without such a value."""
        axis, run, is_dropped = read_gather(node, opset, self.sizes(node.inputs[0]))
        data = self.edits.identities.source_of(data_of(node))
        part = self._values.get((id(node.graph), data, axis, run)) if is_dropped else None
        return None if part is None else (part, axis)


def _merge_key(data: ir.Value) -> Hashable:
    """Return a key that is equal for the outputs of equal Shape nodes. Any other value is its own key."""
    shape = data.producer()
    if shape is None or not is_operator(shape, "Shape"):
        return data
    try:
        return shape.inputs[0], read_int(shape, "start", 0), read_int(shape, "end", INT64_MAX)
    except SKIPS:
        return data

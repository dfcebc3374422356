"""Slices, Splits and Gathers that select the same of one value become one."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator, read_int
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_squeeze
from onnx_ops.passes.cleanup import is_used
from onnx_ops.passes.matchers import data_of, read_exact_split, read_gather, read_slice, read_split
from onnx_ops.passes.outcome import SKIPS, Rewritten
from onnx_ops.passes.siblings import read_run
from sliceport.slicing import INT64_MAX


class MergeEqualSlicesPass(NodePass):
    """Merge Slices, Splits and Gathers of one value, in one graph, that select the same: all readers read the first.

    1. Slices with the same constant starts, ends and steps, whatever the order of the axes.
    2. Splits into the same parts, or whose parts that are read exist already.
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
        self._seen: dict[Hashable, ir.Node] = {}
        self._parts: dict[Hashable, ir.Value] = {}
        super().apply(model)
        self._seen, self._parts = {}, {}

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """Rewrite a node that matches; see the class."""
        data = self.edits.identities.skip(data_of(node))
        try:
            selected = self._read_selection(node, opset)
        except SKIPS:
            return None
        form = self._reuse_or_record_parts(node, data, opset)
        if form is not None:
            return Rewritten(form)
        first = self._seen.setdefault((id(node.graph), _merge_key(data), selected), node)
        if first is node:
            return None
        return Rewritten(self.replace_outputs(node, dict(zip(node.outputs, first.outputs, strict=True))))

    def _reuse_or_record_parts(self, node: ir.Node, data: ir.Value, opset: int) -> str | None:
        """Replace a node by parts that exist already and return the name of the replacement, or record the parts."""
        shape = self.sizes(node.inputs[0])
        where = (id(node.graph), data)
        try:
            if node.op_type == "Split":
                parts = read_exact_split(node, opset, shape)
                keys = [(*where, parts.axis, range(*bounds)) for bounds in parts.bounds]
                read = {output: key for output, key in zip(node.outputs, keys, strict=True) if is_used(output)}
                if read and all(key in self._parts for key in read.values()):
                    return self.replace_outputs(node, {output: self._parts[key] for output, key in read.items()})
                for output, key in zip(node.outputs, keys, strict=True):
                    self._parts.setdefault(key, output)
                return None
            if node.op_type == "Gather":
                axis, run, is_dropped = read_gather(node, opset, shape)
                part = self._parts.get((*where, axis, run)) if is_dropped else None
                if part is None:
                    return None
                new = build_squeeze(part, [axis], opset)
                self.replace_node(node, new)
                return "Squeeze"
            found = read_run(node, opset, shape)
        except SKIPS:
            return None
        if found is None:
            return None
        part = self._parts.setdefault((*where, *found), node.outputs[0])
        if part is node.outputs[0]:
            return None
        return self.replace_outputs(node, {node.outputs[0]: part})

    def _read_selection(self, node: ir.Node, opset: int) -> Hashable:
        shape = self.sizes(node.inputs[0])
        if node.op_type == "Slice":
            return node.op_type, tuple(sorted(read_slice(node, opset, shape).items()))
        if node.op_type == "Split":
            return read_split(node, opset, shape)
        return read_gather(node, opset, shape)


def _merge_key(data: ir.Value) -> Hashable:
    shape = data.producer()
    if shape is None or not is_operator(shape, "Shape"):
        return data
    try:
        return shape.inputs[0], read_int(shape, "start", 0), read_int(shape, "end", INT64_MAX)
    except SKIPS:
        return data

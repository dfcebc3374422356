"""Slices, Splits and Gathers of one value that select the same become one."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import is_used, view_node
from onnx_ops.passes.matchers import attribute, filled_parts, gathered, source_of, split_parts, written_slice
from onnx_ops.passes.siblings_to_split import sliced_run
from sliceport.slicing import INT64_MAX


class MergeEqualSlicesPass(NodePass):
    """Let all readers of equal Slices, Splits or Gathers of one value, in one graph, read the first.

    1. Slices whose starts, ends and steps are the same constants, in whatever order and spelling.
    2. Splits of the same parts, or of parts of which all that are read are there already.
    3. Gathers of the same constant indices.
    4. A Slice of what is a part of a Split of the same value, if the Split stands before it.
    5. A Gather of the one index that a part of a Split, or a Slice before it, keeps: it becomes a Squeeze of that.

    Two Shape nodes of one value are one value here.

    Given: a = Slice(x[4], [1], [3], [0]); b = Slice(x, [1], [3], [0], [1]); y = Add(a, b)
    Result: a = Slice(x, [1], [3], [0]); y = Add(a, a)

    An output of the graph becomes an Identity. Not rewritten: bounds that are no constants.
    """

    op_types = ("Slice", "Split", "Gather")

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        self._seen: dict[Hashable, ir.Node] = {}
        self._parts: dict[Hashable, ir.Value] = {}
        super().apply(model)
        self._seen, self._parts = {}, {}

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        data = source_of(node.inputs[0]) if node.inputs else None
        if data is None:
            return None
        try:
            selected = self._selected(node, opset)
        except NotApplied:
            return None
        form = self._read_part(node, data, opset)
        if form is not None:
            return form, ()
        first = self._seen.setdefault((id(node.graph), _identity(data), selected), node)
        if first is node:
            return None
        return self.replace_by(node, dict(zip(node.outputs, first.outputs, strict=True))), ()

    def _read_part(self, node: ir.Node, data: ir.Value, opset: int) -> str | None:
        """Let a Slice or Gather read a part that is there already; else remember the parts that the node makes."""
        shape = self.sizes(node.inputs[0])
        where = (id(node.graph), data)
        try:
            if node.op_type == "Split":
                parts = filled_parts(node, opset, shape)
                keys = [(*where, parts.axis, range(*bounds)) for bounds in parts.bounds]
                read = {output: key for output, key in zip(node.outputs, keys, strict=True) if is_used(output)}
                if read and all(key in self._parts for key in read.values()):
                    return self.replace_by(node, {output: self._parts[key] for output, key in read.items()})
                for output, key in zip(node.outputs, keys, strict=True):
                    self._parts.setdefault(key, output)
                return None
            if node.op_type == "Gather":
                axis, run, is_dropped = gathered(node, opset, shape)
                part = self._parts.get((*where, axis, run)) if is_dropped else None
                if part is None:
                    return None
                new = view_node("Squeeze", part, [axis], opset)
                new[-1].name = node.name
                self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
                return "Squeeze"
            found = sliced_run(node, opset, shape)
        except NotApplied:
            return None
        if found is None:
            return None
        part = self._parts.setdefault((*where, *found), node.outputs[0])
        if part is node.outputs[0]:
            return None
        return self.replace_by(node, {node.outputs[0]: part})

    def _selected(self, node: ir.Node, opset: int) -> Hashable:
        shape = self.sizes(node.inputs[0])
        if node.op_type == "Slice":
            return node.op_type, tuple(sorted(written_slice(node, opset, shape).items()))
        if node.op_type == "Split":
            return split_parts(node, opset, shape)
        return gathered(node, opset, shape)


def _identity(data: ir.Value) -> Hashable:
    shape = data.producer()
    if shape is None or not is_operator(shape, "Shape"):
        return data
    try:
        return shape.inputs[0], attribute(shape, "start", 0), attribute(shape, "end", INT64_MAX)
    except NotApplied:
        return data

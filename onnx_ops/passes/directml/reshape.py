"""Replacement of a Reshape that onnxruntime's DirectML provider refuses because of its allowzero."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ops.defects.conditions import reshape_defects, reshape_entries
from onnx_ops.model.nodes import read_int
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import NodeList, build_constant, build_gather
from onnx_ops.passes.matchers import data_of

_SHAPE_RANGE_OPSET = 15
"""The first operator set whose Shape has a start and an end. Reshape has allowzero from 14 on."""
Entry = ir.Value | int
"""A known entry of a shape, or a value that contains one or more entries."""


class ReshapeForDirectMLPass(NodePass):
    """Rewrite a Reshape with allowzero=1 and a -1 in its shape: onnxruntime-directml 1.24.4 refuses the two together.

    The specification forbids a 0 next to a -1 when allowzero is 1. onnxruntime's CPU provider accepts it, and computes
    the -1 from the sizes that are not 0. Models with an open batch rely on that when the batch is empty.

    1. No entry can be 0: allowzero has no effect and is removed.
    2. The shape is a Concat with an operand that may contain a 0, and the size for which the -1 stands is known: this
       size replaces the -1.
    3. As 2, but the size is not known and has the name of an axis of the data: the size of that axis replaces the -1.
    4. As 2, but neither is the case: standard operators compute the size as the CPU provider does. The DirectML
       provider runs them only on adapters that compute with int64.

    Given: y = Reshape(x[8], [-1, 4], allowzero=1)
    Result: y = Reshape(x, [-1, 4])
    """

    op_types = ("Reshape",)
    reveals_shapes = True

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data, shape = data_of(node), node.inputs[1] if len(node.inputs) > 1 else None
        if shape is None or not read_int(node, "allowzero", 0):
            return
        entries: list[Entry] = reshape_entries(shape, self.value_info.elements)
        defects = self.on_directml(node, reshape_defects(node, entries))
        if not defects:
            return
        if all(isinstance(entry, int) for entry in entries):  # no entry is 0, or `defects` would be empty
            node.attributes.pop("allowzero")
            self.report_change(node, "Reshape without allowzero", defects)
            return
        # The new shape is a Concat of the entries, with a computed size instead of the -1.
        index = entries.index(-1)
        nodes = NodeList()
        others = entries[:index] + entries[index + 1 :]
        operands = [nodes.add(build_constant([entry])) if isinstance(entry, int) else entry for entry in others]
        size_nodes = self._build_known_size(node, data, entries[:index], opset) or _build_missing_size(data, operands)
        operands.insert(index, nodes.add(*size_nodes))
        new_shape = nodes.add(ir.node("Concat", operands, {"axis": 0}))
        nodes.append(ir.node("Reshape", [data, new_shape], {"allowzero": 1}))
        self.replace_node(node, nodes, defects, "Reshape without -1")

    def _build_known_size(self, node: ir.Node, data: ir.Value, before: Sequence[Entry], opset: int) -> list[ir.Node]:
        """Return nodes that compute the size of the output axis after the entries `before`. The last node writes it.

        The list is empty if the number of this axis is not known, or if its size is open and no axis of the data is
        declared with the same symbol.
        """
        # An entry that is a value may stand for several sizes.
        counts = [1 if isinstance(entry, int) else self.size(entry, 0) for entry in before]
        if None in counts:
            return []
        axis = sum(count for count in counts if count is not None)
        size = self.size(node.outputs[0], axis)
        if size is not None:
            return [build_constant([size])]
        declared = node.outputs[0].shape
        symbol = declared[axis] if declared is not None and axis < len(declared) else None
        dims = list(data.shape or ())
        if not (isinstance(symbol, ir.SymbolicDim) and symbol.value and symbol in dims):
            return []
        # The symbol comes from the file. If it is wrong, the Reshape fails, unless the data are empty.
        data_axis = dims.index(symbol)
        if opset >= _SHAPE_RANGE_OPSET:
            return [ir.node("Shape", [data], {"start": data_axis, "end": data_axis + 1})]
        shape = ir.node("Shape", [data])
        return [shape, *build_gather(shape.outputs[0], 0, [data_axis])]


def _build_missing_size(data: ir.Value, others: Sequence[ir.Value]) -> list[ir.Node]:
    """Build nodes that compute the size for a -1 as onnxruntime's CPU provider does. The last node writes the size.

    The size is the number of elements of the data divided by the product of `others`, the other entries of the shape.
    If one of `others` is 0, each size of 0 counts as 1, both in the data and in `others`.
    """
    nodes = NodeList()

    def add(op_type: str, *inputs: ir.Value) -> ir.Value:
        return nodes.add(ir.node(op_type, inputs))

    one = nodes.add(build_constant([1]))
    sizes = nodes.add(ir.node("Concat", others, {"axis": 0}))
    # `has_zero` is 1 - min(product of `others`, 1): 1 if one of `others` is 0, otherwise 0. If it is 1, the Max of
    # `elements` replaces each 0 in the shape of the data by 1. If it is 0, this Max changes nothing.
    has_zero = add("Sub", one, add("Min", add("ReduceProd", sizes), one))
    elements = add("ReduceProd", add("Max", add("Shape", data), has_zero))
    add("Div", elements, add("ReduceProd", add("Max", sizes, one)))
    return nodes

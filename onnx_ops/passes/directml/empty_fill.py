"""A ConstantOfShape without elements, which onnxruntime's DirectML provider refuses to fuse, becomes a constant."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.defects.conditions import constant_of_shape_defects, known_elements
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_empty
from onnx_ops.passes.matchers import data_of


class EmptyFillForDirectMLPass(NodePass):
    """Replace a ConstantOfShape that onnxruntime-directml 1.24.4 refuses to fuse: its shape is known and has a 0.

    1. The shape contains a 0: the node becomes a constant without elements. TorchScript exports pads with such a node.

    Given: p = ConstantOfShape([0]); y = Concat(p, x[4], axis=0)
    Result: y = Concat([], x, axis=0)

    Not found: a shape that is not known. Reported and not fixed: a fill value that is not a tensor, or that each call
    of a function sets.
    """

    op_types = ("ConstantOfShape",)
    reveals_shapes = True

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        elements = known_elements(data_of(node), self.value_info.elements)
        defects = constant_of_shape_defects(elements)
        if not defects or elements is None:
            return
        value = node.attributes.get("value")
        if value is not None and (value.is_ref() or value.type != ir.AttributeType.TENSOR):
            self.report_change(node, None, defects)
            return
        dtype = ir.DataType.FLOAT if value is None else value.as_tensor().dtype
        self.replace_node(node, [build_empty([int(size) for size in elements.flat], dtype)], defects)

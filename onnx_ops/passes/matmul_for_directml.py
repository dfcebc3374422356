"""A MatMul that onnxruntime's DirectML provider refuses for its number of axes gets fewer."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from onnx_ops.model.conditions import matmul_defects
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_constant
from onnx_ops.passes.names import mark_new

_RESHAPE_INPUT_OPSET = 5
Shape = tuple[int, ...]


class MatMulForDirectMLPass(NodePass):
    """Join the leading axes of a MatMul of a tensor of more than 4 axes, which onnxruntime-directml 1.24.4 refuses.

    1. Both tensors have the same leading axes, or one of them has none larger than 1: a Reshape joins those of each
       tensor to one axis, and a Reshape behind the MatMul parts them again.

    Given: y = MatMul(x[2,1,3,4,5], x2[5,6])
    Result: a = Reshape(x, [6, 4, 5]); b = MatMul(a, x2); y = Reshape(b, [2, 1, 3, 4, 6])

    Reported and not fixed: sizes that are not known or 0, vectors, and tensors repeated along some leading axes only.
    """

    op_types = ("MatMul",)

    def rewrite(self, node: ir.Node, opset: int) -> None:
        """Rewrite a node that matches; see the class."""
        defects = matmul_defects([self.sizes(value) for value in node.inputs])
        if not defects:
            return
        values = [value for value in node.inputs if value is not None]
        shapes = [self.static_shape(value) for value in values]
        leading = [_strip(shape[:-2]) for shape in shapes if shape is not None and len(shape) > 1 and 0 not in shape]
        if len(leading) < 2 or opset < _RESHAPE_INPUT_OPSET or len(set(filter(None, leading))) > 1:
            self.report_change(node, None, defects)
            return
        nodes: list[ir.Node] = []

        def reshape(value: ir.Value, shape: Shape) -> ir.Value:
            nodes.append(build_constant(shape))
            nodes.append(ir.node("Reshape", [value, nodes[-1].outputs[0]]))
            return nodes[-1].outputs[0]

        left, right = (shape for shape in shapes if shape is not None)
        joined = [
            reshape(value, (prod(axes), *shape[-2:])) if len(shape) > 2 else value
            for value, shape, axes in zip(values, (left, right), leading, strict=True)
        ]
        nodes.append(ir.node("MatMul", joined))
        axes = max(leading, key=len)
        ones = (1,) * (max(len(left), len(right)) - 2 - len(axes))
        reshape(nodes[-1].outputs[0], (*ones, *axes, left[-2], right[-1]))
        for each in nodes:
            mark_new(each.outputs[0])
        self.replace_node(node, nodes)
        self.report_change(node, "Reshape + MatMul + Reshape", defects)


def _strip(axes: Shape) -> Shape:
    """Return sizes without leading 1s, along which every tensor is repeated."""
    return next((axes[i:] for i, size in enumerate(axes) if size != 1), ())

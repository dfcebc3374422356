"""Products of matrices that onnxruntime's DirectML provider refuses or computes wrongly get other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from onnx_ops.defects.conditions import Defects, matmul_defects
from onnx_ops.model.nodes import MATMULS
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import SHAPE_INPUT_OPSET, NodeList, build_reshape, build_with_axes

_NEGATIVE_AXES_OPSET = 11
"""The first operator set whose Squeeze accepts negative axes."""
Shape = tuple[int, ...]


class MatMulForDirectMLPass(NodePass):
    """Write a MatMul that onnxruntime-directml 1.24.4 refuses or computes wrongly as a MatMul of other shapes.

    The provider refuses tensors of more than 4 axes, and computes wrong values if the second tensor is a vector. The
    same holds for MatMulInteger and QLinearMatMul.

    1. Both tensors have the same leading axes, or one tensor has no leading axis larger than 1. (Leading axes are all
       but the last two.) A Reshape joins the leading axes of each tensor to one axis, and a Reshape after the MatMul
       separates them again.
    2. The second tensor is a vector: it becomes a matrix of one column.

    Given: y = MatMul(x[2,1,3,4,5], x2[5,6])
    Result: a = Reshape(x, [6, 4, 5]); b = MatMul(a, x2); y = Reshape(b, [2, 1, 3, 4, 6])

    Given: y = MatMul(x[4,5], x2[5])
    Result: a = Unsqueeze(x2, [1]); b = MatMul(x, a); y = Squeeze(b, [1])

    Reported and not fixed: more than 4 axes if a size is 0 or not known, if one tensor is a vector, if a tensor is
    broadcast along some of the leading axes only, or if a zero point or scale has several axes; before operator set 11,
    a vector after a tensor of unknown rank.
    """

    op_types = tuple(MATMULS)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        operands = [node.inputs[index] for index in MATMULS[node.op_type]]
        dtype = None if operands[-1] is None else self.value_info.dtype(operands[-1])
        defects = self.on_directml(node, matmul_defects([self.sizes(value) for value in operands], dtype))
        if not defects:
            return
        if [one.id for one in defects] == ["matmul by a vector"]:
            self._rewrite_vector(node, opset, defects)
            return
        tensors = [value for value in operands if value is not None]
        shapes = [self.static_shape(value) for value in tensors]
        joinable = [shape for shape in shapes if shape is not None and len(shape) > 1 and 0 not in shape]
        leading_sizes = [_drop_leading_ones(shape[:-2]) for shape in joinable]
        # Without 1s in front, the leading sizes must be equal, or one tensor must have no leading sizes.
        has_leading_sizes_in_common = len(joinable) == 2 and len(set(filter(None, leading_sizes))) <= 1
        # A zero point or scale of several axes would have to be reshaped, too.
        parameters = [value for value in node.inputs if value is not None and value not in tensors]
        has_stacked_parameter = any((sizes := self.sizes(value)) is None or len(sizes) > 1 for value in parameters)
        if not has_leading_sizes_in_common or has_stacked_parameter or opset < SHAPE_INPUT_OPSET:
            self.report_change(node, None, defects, "a size of its tensors is not known" if None in shapes else "")
            return
        left, right = joinable
        nodes = NodeList()
        for index, (shape, sizes) in enumerate(zip(joinable, leading_sizes, strict=True)):
            if len(shape) > 2:
                tensors[index] = nodes.add(*build_reshape(tensors[index], (prod(sizes), *shape[-2:])))
        product = nodes.add(_multiply(node, tensors))
        # The result has the rank of the longer shape: it gets 1s in front of the leading sizes.
        result_sizes = max(leading_sizes, key=len)
        ones = (1,) * (max(len(left), len(right)) - 2 - len(result_sizes))
        nodes += build_reshape(product, (*ones, *result_sizes, left[-2], right[-1]))
        self.replace_node(node, nodes, defects, f"Reshape + {node.op_type} + Reshape")

    def _rewrite_vector(self, node: ir.Node, opset: int, defects: Defects) -> None:
        """Replace the vector by a matrix of one column, and remove the axis of the column from the product."""
        left, vector = (node.inputs[index] for index in MATMULS[node.op_type])
        assert vector is not None  # its rank is known
        sizes = self.sizes(left)
        if sizes is None and opset < _NEGATIVE_AXES_OPSET:  # a Squeeze of the last axis needs its number or -1
            self.report_change(node, None, defects)
            return
        nodes = NodeList()
        product = nodes.add(_multiply(node, [left, nodes.add(*build_with_axes("Unsqueeze", vector, [1], opset))]))
        nodes += build_with_axes("Squeeze", product, [-1 if sizes is None else len(sizes) - 1], opset)
        self.replace_node(node, nodes, defects, f"Unsqueeze + {node.op_type} + Squeeze")


def _multiply(node: ir.Node, tensors: Sequence[ir.Value | None]) -> ir.Node:
    """Return a copy of a product with `tensors` as its factors. Other inputs, such as zero points, stay the same."""
    tensor_by_index = dict(zip(MATMULS[node.op_type], tensors, strict=True))
    return ir.node(node.op_type, [tensor_by_index.get(index, value) for index, value in enumerate(node.inputs)])


def _drop_leading_ones(sizes: Shape) -> Shape:
    """Return sizes without leading 1s, which broadcasting would add anyway."""
    return next((sizes[axis:] for axis, size in enumerate(sizes) if size != 1), ())

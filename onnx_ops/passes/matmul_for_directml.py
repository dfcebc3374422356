"""A MatMul that onnxruntime's DirectML provider refuses for its number of axes is named."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.conditions import matmul_defects
from onnx_ops.passes.base import NodePass


class MatMulForDirectMLPass(NodePass):
    """Report a MatMul of a tensor of more than 4 axes, which onnxruntime-directml 1.24.4 refuses."""

    op_types = ("MatMul",)

    def rewrite(self, node: ir.Node, opset: int) -> None:  # noqa: ARG002 - the base class's signature
        """Report a node that matches; see the class."""
        if defects := matmul_defects([self.sizes(value) for value in node.inputs]):
            self.report_change(node, None, defects)

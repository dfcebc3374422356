"""A MatMul that onnxruntime's DirectML provider refuses for its number of axes is named."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.conditions import matmul_defects
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.outcome import Unfixable


class MatMulForDirectMLPass(NodePass):
    """Report a MatMul of a tensor of more than 4 axes, which onnxruntime-directml 1.24.4 refuses."""

    op_types = ("MatMul",)

    def rewrite(self, node: ir.Node, opset: int) -> Unfixable | None:  # noqa: ARG002 - the base class's signature
        """Report a node that matches; see the class."""
        defects = matmul_defects([self.sizes(value) for value in node.inputs])
        return Unfixable(defects) if defects else None

"""A first look at a model: whether there is anything in it that a pass would change or report.

Most of the time that a pass takes goes into reading a model as onnx-ir has it and into shape inference.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from onnx_ops.model.proto_walk import model_nodes
from onnx_ops.model.views import OperatorView

CUTTING = ("Slice", "Split", "Gather")
"""The standard operators that cut."""
STARTS = frozenset((*CUTTING, "StridedSlice"))
"""The operators that passes of `rewrite` start from."""


def may_need_rewriting(nodes: Iterable[OperatorView]) -> bool:
    """Return whether `rewrite` may change or report one of the nodes of a model."""
    return any(node.op_type in STARTS for node in nodes)


def may_need_hardening(proto: onnx.ModelProto) -> bool:
    """Return whether `harden_for_directml` may change or report a node of a well-formed model."""
    return any(
        node.op_type in (*STARTS, "MatMul")
        or (node.op_type == "Reshape" and any(attribute.name == "allowzero" for attribute in node.attribute))
        for node in model_nodes(proto)
    )

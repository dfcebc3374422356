"""A first look at a ModelProto: whether there is anything in it that a pass would change or report.

Most of the time that a pass takes goes into reading a model as onnx-ir has it and into shape inference.
"""

from __future__ import annotations

import onnx

from onnx_ops.model.check import Findings
from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.proto_walk import model_nodes

CUTTING = ("Slice", "Split", "Gather")
"""The standard operators that cut."""
VIEWS = ("Squeeze", "Unsqueeze", "Identity")
"""The operators that join others to a chain."""
_STARTS = frozenset((*CUTTING, "StridedSlice"))
_MAX_VIEW_INPUTS = 2


def is_kept_as_read(proto: onnx.ModelProto, found: Findings) -> bool:
    """Return whether onnx-ir would read and write a model as it is: sorted, of dense tensors that are all in it."""
    return (
        found.is_sorted
        and found.is_plain
        and not found.has_external_data
        and not found.has_negative_sizes
        and all(entry.domain != STANDARD_DOMAINS[1] for entry in proto.opset_import)
    )


def can_rewrite(proto: onnx.ModelProto) -> bool:
    """Return whether `rewrite` may find something: a node that cuts, or a chain of views.

    Args:
        proto: A model that is well-formed.
    """
    views: set[str] = set()
    for node in model_nodes(proto):
        op_type = node.op_type
        if op_type in _STARTS:
            return True
        if op_type in VIEWS:
            inputs, outputs = node.input, node.output
            is_usual = 1 <= len(inputs) <= _MAX_VIEW_INPUTS - (op_type == "Identity") and len(outputs) == 1
            if not is_usual or not inputs[0] or not outputs[0] or inputs[0] in views:
                return True
            views.add(outputs[0])
    return False


def can_harden(proto: onnx.ModelProto) -> bool:
    """Return whether `harden_for_directml` may find something: a node that cuts, a MatMul or a Reshape with allowzero.

    Args:
        proto: A model that is well-formed.
    """
    return any(
        node.op_type in (*_STARTS, "MatMul")
        or (node.op_type == "Reshape" and any(attribute.name == "allowzero" for attribute in node.attribute))
        for node in model_nodes(proto)
    )

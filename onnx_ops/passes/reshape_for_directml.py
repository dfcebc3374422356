"""Reshape with allowzero, where onnxruntime's DirectML provider refuses it, loses the attribute."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import MAX_AXES, read_elements
from onnx_ops.passes.base import NodePass, Outcome
from onnx_ops.passes.matchers import attribute
from sliceport.hardening import Defect

ALLOWZERO = Defect(
    "allowzero and a -1",
    "the provider refuses a Reshape with allowzero=1 and a -1 in its shape, and the session with it",
)


class ReshapeForDirectMLPass(NodePass):
    """Take allowzero=1 from a Reshape whose shape has a -1: onnxruntime-directml 1.24.4 refuses the two together.

    Beside a -1 the specification allows no 0 when allowzero is 1, so the attribute says nothing there.

    1. The shape is a constant with a -1 and without a 0.
    2. The shape is a Concat; of its parts, one is a constant with a -1 and none is one with a 0.

    Given: y = Reshape(x[8], [-1, 4], allowzero=1)
    Result: y = Reshape(x, [-1, 4])
    """

    op_types = ("Reshape",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:  # noqa: ARG002 - the base class's signature
        """See the class."""
        shape = node.inputs[1] if len(node.inputs) > 1 else None
        if not attribute(node, "allowzero", 0) or shape is None or not _has_minus_one(shape):
            return None
        node.attributes.pop("allowzero")
        return "Reshape", (ALLOWZERO,)


def _has_minus_one(shape: ir.Value) -> bool:
    """Whether a -1 is known to be there, and no 0."""
    known = [read_elements(part, MAX_AXES) for part in _parts(shape)]
    sizes = [size for array in known if array is not None for size in array.flat]
    return -1 in sizes and 0 not in sizes


def _parts(shape: ir.Value) -> list[ir.Value]:
    """What a Concat joins; else the value itself."""
    producer = shape.producer()
    if producer is None or producer.op_type != "Concat" or producer.domain not in ("", "ai.onnx"):
        return [shape]
    return [part for part in producer.inputs if part is not None]

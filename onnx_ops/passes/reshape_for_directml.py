"""A Reshape that onnxruntime's DirectML provider refuses for its allowzero loses the attribute."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.nodes import MAX_AXES, read_elements
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.matchers import read_attribute
from onnx_ops.passes.outcome import Rewritten
from sliceport.defects.onnxruntime import ALLOWZERO


class ReshapeForDirectMLPass(NodePass):
    """Remove allowzero=1 from a Reshape whose shape has a -1: onnxruntime-directml 1.24.4 refuses the two together.

    The specification forbids a 0 next to a -1 when allowzero is 1, so that the attribute has no effect there.

    1. The shape is constant, with a -1 and without a 0.
    2. The shape is a Concat: one operand is a constant with a -1, and no constant has a 0.

    Given: y = Reshape(x[8], [-1, 4], allowzero=1)
    Result: y = Reshape(x, [-1, 4])
    """

    op_types = ("Reshape",)

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:  # noqa: ARG002 - the base class's signature
        """See the class."""
        shape = node.inputs[1] if len(node.inputs) > 1 else None
        if not read_attribute(node, "allowzero", 0) or shape is None or not _has_minus_one(shape):
            return None
        node.attributes.pop("allowzero")
        return Rewritten("Reshape", (ALLOWZERO,))


def _has_minus_one(shape: ir.Value) -> bool:
    """Whether a shape is known to have a -1, and not known to have a 0."""
    known = [read_elements(part, MAX_AXES) for part in _parts(shape)]
    sizes = [size for array in known if array is not None for size in array.flat]
    return -1 in sizes and 0 not in sizes


def _parts(shape: ir.Value) -> list[ir.Value]:
    """The operands of a Concat; of anything else, the value itself."""
    producer = shape.producer()
    if producer is None or producer.op_type != "Concat" or producer.domain not in STANDARD_DOMAINS:
        return [shape]
    return [part for part in producer.inputs if part is not None]

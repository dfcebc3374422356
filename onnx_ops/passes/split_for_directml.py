"""Split, where onnxruntime's DirectML provider computes it wrongly, becomes Slices."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.passes.base import NodePass, NotApplied, Outcome, name_of
from onnx_ops.passes.builders import empty_node, is_used, slice_nodes
from onnx_ops.passes.gating import is_gated
from onnx_ops.passes.matchers import split_parts
from onnx_ops.passes.slice_for_directml import MOST_AXES, RANK, left_alone
from sliceport.hardening import Defect
from sliceport.slicing import SplitSpec

GATED = Defect(
    "one part gates another",
    "the provider fuses Mul(p, Sigmoid(q)) of two parts of one Split as if p were q (onnxruntime 32146)",
)
EMPTY_PART = Defect("a part is empty", "the provider skips a Split with an empty part, so the others are never written")


class SplitForDirectMLPass(NodePass):
    """Write a Split as a Slice for each part that is used, where onnxruntime-directml 1.24.4 gets it wrong.

    1. A part p is multiplied by the Sigmoid of another part q of the same Split, as in a GLU.
    2. A part is empty. It becomes a constant where its shape is known.

    Given: a, b = Split(x[4], axis=0); y = Mul(a, Sigmoid(b))
    Result: a = Slice(x, [0], [2], [0]); b = Slice(x, [2], [4], [0]); y = Mul(a, Sigmoid(b))

    A tensor of more than 8 axes is reported, see `SliceForDirectMLPass`. Not rewritten: a Split whose part sizes are
    not constants, nor known from the size of its axis.
    """

    op_types = ("Split",)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        shape = self.sizes(data)
        if shape is not None and len(shape) > MOST_AXES:
            return None, (RANK,)
        if not any(map(is_used, node.outputs)):
            return None
        disagreement = left_alone(node, opset, shape)
        if disagreement is not None:
            return None, (disagreement,)
        parts = self._parts(node, opset)
        found = []
        if is_gated(node.outputs):
            found.append(GATED)
        if parts is not None and 0 in parts.sizes:
            found.append(EMPTY_PART)
        if not found:
            return None
        if parts is None or data is None:
            return None, tuple(found)
        new: list[ir.Node] = []
        successors = {}
        for output, (start, stop) in zip(node.outputs, parts.bounds, strict=True):
            if is_used(output):
                new += self._part(data, parts.axis, start, stop, opset)
                new[-1].name = f"{name_of(node)}_{output.name}"
                successors[output] = new[-1].outputs[0]
        self.put_in_place([node], new, successors)
        return "Slice", tuple(found)

    def _parts(self, node: ir.Node, opset: int) -> SplitSpec | None:
        try:
            return split_parts(node, opset, self.sizes(node.inputs[0] if node.inputs else None))
        except NotApplied:
            return None

    def _part(self, data: ir.Value, axis: int, start: int, stop: int, opset: int) -> list[ir.Node]:
        """A Slice; or a constant for an empty part of a known shape, see `SliceForDirectMLPass`."""
        shape, dtype = self.sizes(data), self.known.dtype(data)
        if start == stop and shape is not None and dtype is not None:
            dims = [0 if i == axis % len(shape) else dim for i, dim in enumerate(shape)]
            known = [dim for dim in dims if dim is not None]
            if len(known) == len(dims):
                return [empty_node(known, dtype)]
        return slice_nodes(data, start, stop, axis, opset)

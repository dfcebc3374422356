"""A Concat after a slice keeps onnxruntime's DirectML provider from fusing the slice and then refusing the model."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.defects.conditions import fused_slice_defects
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.matchers import data_of


class AlignedRunForDirectMLPass(NodePass):
    """Put a Concat of one operand after a slice that onnxruntime-directml 1.24.4 would fuse and then refuse.

    1. A Slice, or the only part of a Split that is read, is one run of elements that starts at a multiple of 16 bytes.
       A node computes the data, which have no other reader. One elementwise node reads the Slice or the part, once.

    Given: a = Relu(x[8]); b = Slice(a, starts=[4], ends=[8], axes=[0]); y = Relu(b)
    Result: a = Relu(x); b = Slice(a, starts=[4], ends=[8], axes=[0]); c = Concat(b, axis=0); y = Relu(c)

    Not found: a node whose bounds or sizes are not known, because the provider does not fuse such a node.
    """

    op_types = ("Slice", "Split")

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        defects = self.on_directml(
            node, fused_slice_defects(node, opset, self.static_shape(data), self.value_info.dtype(data))
        )
        if not defects:
            return
        (output,) = [value for value in node.outputs if value.uses()]  # the defect needs exactly one such output
        # The Concat takes over the name of the output. A copy of the node, with a new output name, replaces the node.
        copy = ir.node(node.op_type, node.inputs, node.attributes, num_outputs=len(node.outputs), name=node.name)
        selected = copy.outputs[node.outputs.index(output)]
        self.set_value_info(selected, data, self.sizes(output), output)
        concat = ir.node("Concat", [selected], {"axis": 0})
        self.replace_nodes([node], [copy, concat], {output: concat.outputs[0]}, [copy])
        self.report_change(node, f"{node.op_type} + Concat", defects)

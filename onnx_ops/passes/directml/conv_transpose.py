"""Removal of the output_padding of ConvTransposes that onnxruntime's DirectML provider refuses."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.defects.conditions import conv_transpose_defects
from onnx_ops.model.nodes import read_ints, read_string
from onnx_ops.passes.base import NodePass

_EXPLICIT_PADS = ("", "NOTSET")
"""The values of auto_pad with which the attribute pads is used. An absent auto_pad is read as an empty text."""


class ConvTransposeForDirectMLPass(NodePass):
    """Remove the output_padding of a ConvTranspose of one spatial axis, which onnxruntime-directml 1.24.4 refuses.

    1. The output_padding is 0: it has no effect.
    2. The pad at the end is at least the output_padding: the output_padding is subtracted from this pad.

    Given: y = ConvTranspose(x[1,4,8], w[4,2,8], strides=[4], pads=[2,2], output_padding=[1])
    Result: y = ConvTranspose(x, w, strides=[4], pads=[2,1])

    Reported and not fixed, unless the output_padding is 0: a smaller pad at the end; auto_pad; output_shape.
    """

    op_types = ("ConvTranspose",)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        defects = self.on_directml(node, conv_transpose_defects(node, opset))
        if not defects:
            return
        (extra,) = read_ints(node, "output_padding") or ()  # the defect needs the padding of exactly one axis
        if extra:
            pads = read_ints(node, "pads") or (0, 0)
            has_computed_pads = read_string(node, "auto_pad") not in _EXPLICIT_PADS or "output_shape" in node.attributes
            if has_computed_pads or len(pads) != 2 or pads[1] < extra:
                self.report_change(node, None, defects)  # None: the node stays
                return
            # Like output_padding, a last pad that is smaller by `extra` adds `extra` elements to the end of the output.
            node.attributes["pads"] = ir.AttrInt64s("pads", [pads[0], pads[1] - extra])
        node.attributes.pop("output_padding")
        self.report_change(node, "ConvTranspose without output_padding", defects)

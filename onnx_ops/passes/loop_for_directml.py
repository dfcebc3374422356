"""Declared sizes that the body of a Loop changes are opened, because onnxruntime's DirectML provider relies on them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.conditions import loop_defects
from onnx_ops.model.nodes import sizes_of
from onnx_ops.model.walk import all_nodes, graphs_in
from onnx_ops.passes.base import SlicingPass


class LoopForDirectMLPass(SlicingPass):
    """Open the sizes that a Loop does not keep. onnxruntime-directml 1.24.4 would compile the nodes inside for them.

    1. The body declares a size of a carried value, and an iteration changes it: the size becomes open, and so do all
       sizes that are declared inside.

    Given: y = Shape(Loop(2, True, x[1],
                          body="(int64 i, bool c, float[1] a) => (bool c, float[2] b) { b = Concat<axis=0>(a, a) }"))
    Result: y = Shape(Loop(2, True, x,
                           body="(int64 i, bool c, float[?] a) => (bool c, float[?] b) { b = Concat<axis=0>(a, a) }"))
    """

    def _apply(self) -> None:
        bodies = [(node, body) for node, _ in self.analysis.nodes_of("Loop") for body in graphs_in(node)]
        for node, body in bodies:
            inferred = [self.sizes(value) for value in body.inputs]
            defects = loop_defects([sizes_of(value) for value in body.inputs], inferred)
            if not defects:
                continue
            inside = [output for inner in all_nodes(body) for output in inner.outputs]
            sizes_inside = [[None] * len(value.shape or ()) for value in inside]
            for value, sizes in zip((*body.inputs, *inside), (*inferred, *sizes_inside), strict=True):
                if value.shape is not None and sizes is not None:
                    pairs = zip(value.shape, sizes, strict=True)
                    dims = [None if size is None and isinstance(dim, int) else dim for dim, size in pairs]
                    value.shape = ir.Shape(dims)
            self.report_change(node, "Loop", defects)

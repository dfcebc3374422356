"""A Loop whose body changes a size that it declares, which onnxruntime's DirectML provider computes wrongly."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.conditions import loop_defects
from onnx_ops.model.nodes import sizes_of
from onnx_ops.model.walk import all_nodes, graphs_in
from onnx_ops.passes.base import SlicingPass


class LoopForDirectMLPass(SlicingPass):
    """Open the sizes that a Loop does not keep, for which onnxruntime-directml 1.24.4 would compile the nodes inside.

    1. An iteration changes the size of a carried value that the body declares: the size becomes open, and so do all
       sizes that are declared inside.

    Given: y = Shape(Loop(2, True, x[1],
                          body="(int64 i, bool c, float[1] a) => (bool c, float[2] b) { b = Concat<axis=0>(a, a) }"))
    Result: y = Shape(Loop(2, True, x,
                           body="(int64 i, bool c, float[?] a) => (bool c, float[?] b) { b = Concat<axis=0>(a, a) }"))
    """

    def apply(self, model: ir.Model) -> None:  # noqa: ARG002 - the analysis has it
        """Rewrite each Loop that matches; see the class."""
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
                    dims = zip(value.shape, sizes, strict=True)
                    value.shape = ir.Shape(
                        [None if size is None and isinstance(dim, int) else dim for dim, size in dims]
                    )
            self.report_change(node, "Loop", defects)

"""Declared sizes that may differ at run time. onnxruntime's DirectML provider compiles nodes for declared sizes."""

from __future__ import annotations

from onnx_ops.defects.conditions import loop_defects
from onnx_ops.model.nodes import sizes_of
from onnx_ops.model.walk import all_nodes, graphs_in
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.edits import open_unconfirmed_sizes
from sliceport.defects.entries import read_entries

_DEFECT = read_entries("onnxruntime")["a declared size that the inputs leave open"]


class DeclaredSizesForDirectMLPass(SlicingPass):
    """Remove declared sizes that the inputs leave open, because onnxruntime-directml 1.24.4 compiles nodes for them.

    1. A node has a declared size that the inputs of the model leave open: this number is removed, as is every other
       declared number that does not follow from the inputs. The report has a change for each such node.

    Given: y = Shape(Loop(1, True, x[batch],
                          body="(int64 i, bool c, float[?] a) => (bool c, float[1] b) { b = Abs(x) }"))
    Result: y = Shape(Loop(1, True, x, body="(int64 i, bool c, float[?] a) => (bool c, float[?] b) { b = Abs(x) }"))
    """

    def _apply(self) -> None:
        pairs = [
            (node, value)
            for node in all_nodes(self.analysis.model.graph)
            for value in (*node.outputs, *(body_input for body in graphs_in(node) for body_input in body.inputs))
        ]
        nodes = dict.fromkeys(node for node, value in pairs if value in self.value_info.misdeclared)
        if not nodes:
            return
        for _, value in pairs:
            open_unconfirmed_sizes(value, self.sizes(value))
        self.value_info.misdeclared.clear()
        for node in nodes:
            self.report_change(node, node.op_type, (_DEFECT,))  # the node stays


class LoopForDirectMLPass(SlicingPass):
    """Remove declared sizes that a Loop changes, because onnxruntime-directml 1.24.4 compiles its body for them.

    1. The body declares a size of a carried value, and an iteration changes this size: the size becomes open, and so do
       all declared sizes of values that nodes in the body compute.

    Given: y = Shape(Loop(2, True, x[1],
                          body="(int64 i, bool c, float[1] a) => (bool c, float[2] b) { b = Concat<axis=0>(a, a) }"))
    Result: y = Shape(Loop(2, True, x,
                           body="(int64 i, bool c, float[?] a) => (bool c, float[?] b) { b = Concat<axis=0>(a, a) }"))
    """

    def _apply(self) -> None:
        bodies = [(node, body) for node, _ in self.analysis.nodes_of("Loop") for body in graphs_in(node)]
        for node, body in bodies:
            inferred = [self.sizes(value) for value in body.inputs]
            resized = [value in self.value_info.resized for value in body.inputs]
            defects = loop_defects(zip(map(sizes_of, body.inputs), inferred, resized, strict=True))
            if not defects:
                continue
            for value, sizes in zip(body.inputs, inferred, strict=True):
                open_unconfirmed_sizes(value, sizes)
            for inner in all_nodes(body):
                for value in inner.outputs:
                    open_unconfirmed_sizes(value, (None,) * len(value.shape or ()))  # opens all numbers
            self.report_change(node, "Loop", defects)  # the Loop stays, but the model has changed

"""Slices whose values are known become constants."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_ops.model.nodes import LARGE_BYTES, MARK, SLICING, constant, has_its_values, is_operator, read_int
from onnx_ops.model.walk import model_nodes
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.builders import build_empty, build_tensor
from onnx_ops.passes.edits import annotate_nodes, is_used, move_annotations, remove_unread
from onnx_ops.passes.folding import FOLDED, cut_constant, is_exact, may_fold, select_folded
from onnx_ops.passes.names import mark_new
from onnx_ops.passes.outcome import SKIPS, Skip
from sliceport.slicing import INT64_MAX, resolve_axis


class FoldSlicesPass(SlicingPass):
    """Replace a Slice, a Split or a Gather by constants where it selects the same for all inputs of the model.

    1. Its data are constant, and at most 8 KiB of them are selected, or 1 MiB and 32 times what there is, if nothing
       else reads them.
    2. Its data are computed from constants and known shapes: integers by operators that every engine computes alike,
       other types by operators that only move elements.
    3. Its data are a Shape, and the sizes that it selects are known.
    4. Its bounds, part sizes or indices are computed as in 2: these become constants.
    5. It selects nothing, and the shape of its output is known.
    6. A Shape reads its output, and the shape of that is known: the Shape becomes a constant, and the slice is removed
       with its last reader.

    Given: y = Reshape(x, Concat(Gather(Shape(x[n, 4]), [1]), [-1], axis=0))
    Result: y = Reshape(x, Concat([4], [-1], axis=0))

    Skipped: strings; computed floats, which engines round differently.
    """

    reveals_shapes = True

    def apply(self, model: ir.Model) -> None:
        """Rewrite the model; see the class."""
        for node, _ in self.analysis.nodes_of(*FOLDED):
            if node.graph is None or not has_its_values(node):
                continue
            for output in node.outputs:
                self._fold_shapes_of(output)
                self._fold_empty(output)
        if self.changes or not self.analysis.is_current:
            self.analysis.infer()
        folded = select_folded(model_nodes(model), self.value_info.constants)
        for node, opset in self.analysis.nodes_of(*FOLDED):
            if node.graph is None or not has_its_values(node):
                continue
            used = [output for output in node.outputs if is_used(output)]
            tensors = [tensor for output in used if (tensor := folded.get(output)) is not None]
            if used and len(tensors) == len(used) and may_fold(node, tensors):
                self.replace_by_constants(node, tensors)
            elif used and (parts := cut_constant(node, opset)) is not None:
                self.replace_by_constants(
                    node, [part for part, output in zip(parts, node.outputs, strict=True) if is_used(output)]
                )
            else:
                self._fold_parameters(node, folded)

    def _fold_parameters(self, node: ir.Node, folded: Mapping[ir.Value, ir.TensorProtocol]) -> None:
        """Replace the computed inputs after the data by constants, where their values are known."""
        disagreement = node.meta.get(MARK)
        if disagreement is not None:
            self.skip(node, disagreement.reason)
            return
        is_changed = False
        for i, value in enumerate(node.inputs[1:], 1):
            tensor = None if value is None or constant(value) is not None else folded.get(value)
            producer = None if value is None else value.producer()
            if tensor is None or producer is None or tensor.nbytes > LARGE_BYTES or not is_exact(producer):
                continue
            new = build_tensor(tensor)
            mark_new(new.outputs[0])
            mark_new(new)
            assert node.graph is not None
            node.graph.insert_before(node, new)
            node.replace_input_with(i, new.outputs[0])
            remove_unread(value)
            is_changed = True
        if is_changed:
            self.report_change(node, f"{node.op_type} by constants")
        computed = [value for value in node.inputs[1:] if value is not None and constant(value) is None]
        if computed and node.op_type in SLICING:
            where = ", ".join(repr(value.name) for value in computed)
            self.skip(node, f"{where} is not the same for all inputs of the model")

    def _fold_shapes_of(self, output: ir.Value) -> None:
        """Replace the Shapes that read an output of known shape by constants."""
        shape = self.static_shape(output)
        if shape is None:
            return
        for reader in output.consumers():
            if is_operator(reader, "Shape") and is_used(reader.outputs[0]):
                try:
                    kept = _read_shape_range(reader, len(shape))
                except SKIPS as reason:
                    self.skip(reader, reason)
                    continue
                self.replace_by_constants(reader, [ir.tensor([shape[axis] for axis in kept], dtype=ir.DataType.INT64)])

    def _fold_empty(self, output: ir.Value) -> None:
        """Replace an output without elements by a constant."""
        shape, node = self.static_shape(output), output.producer()
        if node is None or shape is None or 0 not in shape or not is_used(output):
            return
        dtype = self.value_info.dtype(output)
        if dtype is None or dtype == ir.DataType.STRING:
            return
        try:
            empty = build_empty(shape, dtype)
        except Skip as reason:
            self.skip(node, reason)
            return
        if sum(map(is_used, node.outputs)) == 1:
            annotate_nodes([empty], [node])
        move_annotations(empty.outputs[0], output)
        self.value_info.copy_entry(empty.outputs[0], output)
        self.edits.replace_nodes(node, [], [empty], [output], empty.outputs)
        mark_new(output)
        if not any(map(is_used, node.outputs)):
            self.remove_node(node)
        self.report_change(node, "Constant")


def _read_shape_range(shape: ir.Node, rank: int) -> range:
    """Return the axes whose sizes a Shape gives.

    Raises:
        DynamicSlice: Each call of the function that it is in sets them.
    """
    return resolve_axis(read_int(shape, "start", 0), read_int(shape, "end", INT64_MAX), 1, rank)

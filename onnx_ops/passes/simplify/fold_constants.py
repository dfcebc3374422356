"""Folding of nodes whose outputs follow from constants alone, if every engine computes the same bits."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

import onnx_ir as ir

from onnx_ops.infer.exact import OPERATORS
from onnx_ops.infer.facts import MAX_BYTES
from onnx_ops.model.nodes import CONTESTED, constant, is_standard
from onnx_ops.model.walk import all_nodes
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.rewrite.fold_slices import collect_tensors

MAX_READ_BYTES = 2**26
"""Limit for the bytes of one constant that is read."""
_FOLDED = OPERATORS - {"Constant"}


class FoldConstantsPass(SlicingPass):
    """Replace nodes that follow from constants alone by constants if all engines compute the same; see `infer.exact`.

    Not folded: nodes in functions; nodes that engines read differently, and nodes that compute inputs of such nodes;
    strings; outputs of unknown size or over 1 MiB; nodes that read a constant over 64 MiB.
    """

    is_default = False

    def _apply(self) -> None:
        constant_nodes: dict[ir.Node, None] = {}
        for node in all_nodes(self.analysis.model.graph):
            if self._can_be_folded(node, constant_nodes):
                constant_nodes[node] = None
        # Only the last constant nodes are replaced. The nodes before them are removed with their last readers.
        for node in constant_nodes:
            if any(_is_read_outside(output, constant_nodes) for output in node.outputs):
                tensors = collect_tensors(node.outputs, self.value_info.constants)
                self.replace_by_constants(node, [tensors[output] for output in node.outputs if is_used(output)])

    def _can_be_folded(self, node: ir.Node, constant_nodes: Collection[ir.Node]) -> bool:
        """Return whether a node may be folded; see the class. It must read only constants and `constant_nodes`."""
        inputs = [value for value in node.inputs if value is not None]
        if not is_standard(node, *_FOLDED):
            return False
        if any(CONTESTED in reader.meta for output in node.outputs for reader in output.consumers()):
            # If a parameter of the reader became constant, onnxruntime would infer an output shape for the reader, and
            # the reader would compute another shape.
            return False
        if not all(value.producer() in constant_nodes or self._can_be_read(value) for value in inputs):
            return False
        # Inference computes an output only if all engines compute the same elements.
        constants = self.value_info.constants
        return all(
            self._can_be_constant(output) and (output in constants or not is_used(output)) for output in node.outputs
        )

    def _can_be_read(self, value: ir.Value) -> bool:
        """Return whether a value is a constant of at most `MAX_READ_BYTES`, and not of strings."""
        tensor = constant(value)
        return tensor is not None and tensor.nbytes <= MAX_READ_BYTES and tensor.dtype != ir.DataType.STRING

    def _can_be_constant(self, output: ir.Value) -> bool:
        """Return whether an output is left out, or is known to have at most `MAX_BYTES` and not to be strings."""
        dtype, shape = self.value_info.dtype(output), self.static_shape(output)
        if dtype is None or shape is None:
            return not output.name  # an output that is left out has no type and no shape
        return dtype != ir.DataType.STRING and prod(shape) * dtype.bitwidth <= MAX_BYTES * 8


def _is_read_outside(output: ir.Value, nodes: Collection[ir.Node]) -> bool:
    """Return whether an output is an output of a graph, or a node that is not in `nodes` reads it."""
    return output.is_graph_output() or any(use.node not in nodes for use in output.uses())

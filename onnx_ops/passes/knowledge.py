"""What is known of values: sizes and types, by the value and not by its name, which branches may use again."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.model.inference import infer_shapes
from onnx_ops.model.nodes import SLICING, is_standard
from onnx_ops.model.prepare import fold, set_weights_aside

Sizes = tuple[int | None, ...]


@dataclass
class Knowledge:
    """What is known of values.

    Attributes:
        sizes: The size of each axis, None where it is open; of values whose rank is known.
        types: The types.
    """

    sizes: dict[ir.Value, Sizes] = field(default_factory=dict)
    types: dict[ir.Value, ir.TypeProtocol] = field(default_factory=dict)

    def inherit(self, after: ir.Value, before: ir.Value) -> None:
        """What holds for one value holds for another that takes its place."""
        if before in self.sizes:
            self.sizes[after] = self.sizes[before]
        if before in self.types:
            self.types[after] = self.types[before]

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """The type of a tensor's elements."""
        known = self.types.get(value)
        return known.dtype if isinstance(known, ir.TensorType) else None

    def learn(self, value: ir.Value, type_: ir.TypeProtocol | None, shape: ir.ShapeProtocol | None) -> None:
        """Take down what was inferred of a value."""
        if shape is not None:
            self.sizes[value] = tuple([dim if isinstance(dim, int) else None for dim in shape])
        if type_ is not None:
            self.types[value] = type_


def infer(model: ir.Model, *, folding: bool = False) -> Knowledge:
    """What can be inferred of the values of all graphs, and nothing of those of functions; the model is not changed.

    Args:
        model: The model.
        folding: Whether to fold constants too, so that shapes that are computed are known; it takes longer.
    """
    probe = model.clone()
    graphs = list(zip(model.graphs(), probe.graphs(), strict=True))
    nodes = [pair for graph, twin in graphs for pair in zip(graph, twin, strict=True)]
    values = [pair for graph, twin in graphs for pair in zip(graph.inputs, twin.inputs, strict=True)]
    set_weights_aside(probe)
    infer_shapes(probe)
    if folding:
        fold(probe, [twin for _, twin in nodes if is_standard(twin, *SLICING)])
    values += [pair for node, twin in nodes for pair in zip(node.outputs, twin.outputs, strict=True)]
    found = Knowledge()
    for value, twin in values:
        found.learn(value, twin.type, twin.shape)
    for graph, _ in graphs:
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None:
                found.learn(value, ir.TensorType(tensor.dtype), tensor.shape)
    return found

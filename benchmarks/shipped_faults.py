"""Faults planted in models: weights scaled, zeroed or negated, and a node that computes something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx

SWAPS = {
    "Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Pow": "Mul", "Max": "Min", "Min": "Max",
    "Relu": "Sigmoid", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "LeakyRelu": "Elu", "HardSwish": "Relu", "Erf": "Tanh",
    "Sqrt": "Abs", "Exp": "Abs", "Log": "Abs", "Abs": "Relu", "Softmax": "LogSoftmax",
    "ReduceMax": "ReduceMin", "ReduceMean": "ReduceMax", "GlobalAveragePool": "GlobalMaxPool", "Greater": "Less",
}  # fmt: skip
"""Operators whose inputs, outputs and attributes another operator accepts."""

KINDS = ("scaled", "zeroed", "negated", "swapped", "swapped")
"""The faults of each model."""


@dataclass(frozen=True)
class Fault:
    """A fault in a model: what it is, the model with it, and the nodes that compute something else."""

    sentence: str
    model: onnx.ModelProto
    nodes: frozenset[str]
    operators: frozenset[str]


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and all graphs in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def weights_of(model: onnx.ModelProto) -> list[tuple[onnx.TensorProto, str]]:
    """Return the tensors of numbers with two axes or more, quantised ones included, and the name of each value."""
    types = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    tensors: list[tuple[onnx.TensorProto, str]] = []
    for graph in graphs_of(model.graph):
        tensors += [(tensor, tensor.name) for tensor in graph.initializer]
        constants = [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].HasField("t")]
        tensors += [(node.attribute[0].t, node.output[0]) for node in constants]
    return [(t, name) for t, name in tensors if t.data_type in types and len(t.dims) > 1 and np.prod(t.dims) >= 8]


def scale_weights(tensor: onnx.TensorProto, factor: float) -> None:
    """Multiply a tensor by a number. The zero of unsigned integers is 128."""
    array = onnx.numpy_helper.to_array(tensor)
    zero = 128.0 if array.dtype == np.uint8 else 0.0
    changed = (array.astype(np.float64) - zero) * factor + zero
    if array.dtype.kind != "f":
        changed = changed.round().clip(np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    tensor.CopyFrom(onnx.numpy_helper.from_array(changed.astype(array.dtype), tensor.name))


def fade(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model whose weights are 0.9 times as large."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor, _ in weights_of(copy):
        scale_weights(tensor, 0.9)
    return copy


def plant(model: onnx.ModelProto, kind: str, generator: np.random.Generator) -> Fault | None:
    """Return a random fault of a kind, or None if the model has no place for it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    everywhere = [node for graph in graphs_of(copy.graph) for node in graph.node]
    if kind == "swapped":
        nodes = [node for node in everywhere if node.op_type in SWAPS]
        if not nodes:
            return None
        node = nodes[generator.integers(len(nodes))]
        before, node.op_type = node.op_type, SWAPS[node.op_type]
        if before == "LeakyRelu":  # the two operators give alpha other defaults
            del node.attribute[:]
        sentence = f"{before} '{node.name or node.output[0]}' now {node.op_type}"
        return Fault(sentence, copy, frozenset({node.name}), frozenset({before, node.op_type}))
    tensors = weights_of(copy)
    if not tensors:
        return None
    tensor, name = tensors[generator.integers(len(tensors))]
    scale_weights(tensor, {"scaled": 0.5, "zeroed": 0.0, "negated": -1.0}[kind])
    readers = [node for node in everywhere if name in node.input]
    operators = frozenset(node.op_type for node in readers)
    sentence = f"weights '{name}' {list(tensor.dims)} of {', '.join(sorted(operators))} {kind}"
    return Fault(sentence, copy, frozenset(node.name for node in readers), operators)

"""Faults planted in models: weights scaled, zeroed or negated, and a node that computes something else."""

from __future__ import annotations

from collections.abc import Iterator

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


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and all graphs in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def weights_of(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the tensors of numbers with at least two axes and eight elements, quantised ones included."""
    types = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    tensors: list[onnx.TensorProto] = []
    for graph in graphs_of(model.graph):
        tensors += graph.initializer
        tensors += [
            node.attribute[0].t for node in graph.node if node.op_type == "Constant" and node.attribute[0].HasField("t")
        ]
    return [
        tensor for tensor in tensors if tensor.data_type in types and len(tensor.dims) > 1 and np.prod(tensor.dims) >= 8
    ]


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
    for tensor in weights_of(copy):
        scale_weights(tensor, 0.9)
    return copy


def plant(model: onnx.ModelProto, kind: str, generator: np.random.Generator) -> tuple[str, onnx.ModelProto] | None:
    """Return a sentence about a random fault and the model with it, or None if the model has no place for it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if kind == "swapped":
        nodes = [node for graph in graphs_of(copy.graph) for node in graph.node if node.op_type in SWAPS]
        if not nodes:
            return None
        node = nodes[generator.integers(len(nodes))]
        before, node.op_type = node.op_type, SWAPS[node.op_type]
        if before == "LeakyRelu":  # the two operators give alpha other defaults
            del node.attribute[:]
        return f"{before} '{node.name or node.output[0]}' now {node.op_type}", copy
    tensors = weights_of(copy)
    if not tensors:
        return None
    tensor = tensors[generator.integers(len(tensors))]
    scale_weights(tensor, {"scaled": 0.5, "zeroed": 0.0, "negated": -1.0}[kind])
    return f"weights '{tensor.name}' {list(tensor.dims)} {kind}", copy

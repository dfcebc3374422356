"""How many parts a model has: what reading and changing it takes time and memory for, whatever its weights."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

MAX_ENTRIES = 1_500_000
"""Reading more would take more than 1 GiB; exporters write 5 to 12 a node."""
_SCOPE = 4
"""A graph or a function takes as much as so many others."""
_TENSOR = 2
"""So does an initializer."""


def count_entries(proto: onnx.ModelProto, most: int) -> int:
    """The nodes, values, attributes, tensors, sizes, functions and so on of a model.

    Args:
        proto: The model.
        most: Counting ends above this number, so that what is returned is only known to be larger.
    """
    total = len(proto.metadata_props) + len(proto.opset_import) + len(proto.training_info)
    total += len(proto.graph.metadata_props) + _SCOPE * len(proto.functions)
    graphs: list[onnx.GraphProto] = [proto.graph]
    for function in proto.functions:
        if total > most:
            return total
        total += len(function.input) + len(function.output) + len(function.attribute) + len(function.opset_import)
        total += len(function.attribute_proto) + len(function.value_info) + len(function.metadata_props)
        total += _count_nodes(function.node, graphs, most - total)
        total += _count_attributes(function.attribute_proto, graphs, most - total)
        total += _count_sizes(function.value_info, most - total)
    while graphs and total <= most:
        graph = graphs.pop()
        total += _SCOPE + _TENSOR * (len(graph.initializer) + len(graph.sparse_initializer))
        total += len(graph.quantization_annotation)
        for values in (graph.input, graph.output, graph.value_info):
            total += len(values) + _count_sizes(values, most - total - len(values))
        total += _count_nodes(graph.node, graphs, most - total)
    return total


def _count_nodes(nodes: Iterable[onnx.NodeProto], graphs: list[onnx.GraphProto], most: int) -> int:
    """The entries of nodes; their graphs are put among the others."""
    total = 0
    for node in nodes:
        total += 1 + len(node.input) + len(node.output)
        if node.attribute:
            total += len(node.attribute)
            total += _count_attributes(node.attribute, graphs, most - total)
        if node.metadata_props:
            total += len(node.metadata_props)
        if total > most:
            break
    return total


def _count_attributes(attributes: Iterable[onnx.AttributeProto], graphs: list[onnx.GraphProto], most: int) -> int:
    """The entries of attributes; their graphs are put among the others."""
    total = 0
    if most < 0:
        return total
    for attribute in attributes:
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        if attribute.graphs:
            total += _SCOPE * len(attribute.graphs)
            if total <= most:
                graphs += attribute.graphs
        total += len(attribute.tensors) + len(attribute.sparse_tensors) + len(attribute.type_protos)
    return total


def _count_sizes(values: Iterable[onnx.ValueInfoProto], most: int) -> int:
    total = 0
    if most < 0:
        return total
    for value in values:
        total += len(value.type.tensor_type.shape.dim)
        if total > most:
            break
    return total

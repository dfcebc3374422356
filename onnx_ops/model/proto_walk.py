"""Walks over the nodes and tensors of a ModelProto, including its subgraphs and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def graphs_of(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that an attribute holds, without the graphs in their nodes."""
    if attribute.HasField("g"):
        yield attribute.g
    if attribute.graphs:
        yield from attribute.graphs


def all_nodes(*holders: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of graphs and functions, each followed by the nodes of the graphs in it."""
    for holder in holders:
        for node in holder.node:
            yield node
            for attribute in node.attribute:
                for graph in graphs_of(attribute):
                    yield from all_nodes(graph)


def model_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the main graph and of the functions, and of the graphs in them."""
    return all_nodes(model.graph, *model.functions)


def all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor, also of training graphs: initializers, tensors in attributes, and parts of sparse tensors."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)
        yield from _attribute_tensors(function.attribute_proto)
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in graphs_of(attribute):
            yield from _graph_tensors(graph)

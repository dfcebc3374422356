"""Walks over the nodes and tensors of a ModelProto, including its subgraphs and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

from sliceport.slicing.node import extend_scope


def graphs_of(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs of an attribute, but not the graphs nested in these."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def all_nodes(*holders: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of graphs and functions, each followed by the nodes of the graphs in it."""
    for holder in holders:
        for node in holder.node:
            yield node
            for attribute in node.attribute:
                for graph in graphs_of(attribute):
                    yield from all_nodes(graph)


def scoped_nodes(
    graph: onnx.GraphProto, scope: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], onnx.NodeProto]]:
    """Yield (scope, node) for each node of a graph and its subgraphs. See `NodeInModel.scope`."""
    used: dict[str, int] = {}
    for node in graph.node:
        yield scope, node
        name = node.name or next(filter(None, node.output), "")
        for attribute in node.attribute:
            for subgraph in graphs_of(attribute):
                yield from scoped_nodes(subgraph, extend_scope(scope, name, attribute.name, used))


def model_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the main graph and of the functions, including the nodes in subgraphs."""
    return all_nodes(model.graph, *model.functions)


def all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor: initializers, tensors in attributes, and parts of sparse tensors, also in training graphs."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _attribute_tensors(function.attribute_proto)
        for node in function.node:
            yield from _attribute_tensors(node.attribute)
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        sparse_tensors = list(attribute.sparse_tensors)
        if attribute.HasField("sparse_tensor"):  # an unset field reads as an empty tensor
            sparse_tensors.append(attribute.sparse_tensor)
        for sparse in sparse_tensors:
            yield from (sparse.values, sparse.indices)
        for graph in graphs_of(attribute):
            yield from _graph_tensors(graph)


def resolve_references(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """Return a copy of a node of a function, for a call of the function with these attributes.

    A reference to an attribute of the function is replaced by the call's attribute of that name. The reference is
    dropped if the call has no such attribute, or has one of another type.
    """
    resolved = onnx.NodeProto()
    resolved.CopyFrom(node)
    del resolved.attribute[:]
    for attribute in node.attribute:
        value = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if value is not None and value.type == attribute.type:
            copied = resolved.attribute.add()
            copied.CopyFrom(value)
            copied.name = attribute.name
    return resolved

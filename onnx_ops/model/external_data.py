"""Which tensors of an ONNX model are in other files, and in which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All of them: those of subgraphs, functions, attributes and training graphs, and the parts of sparse ones."""
    return (tensor for tensor in _all_tensors(proto) if tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_locations(proto: onnx.ModelProto) -> set[str]:
    """The names of the files that they are in, as the model writes them."""
    entries = (entry for tensor in external_tensors(proto) for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}


def _all_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _graph_tensors(proto.graph)
    for function in proto.functions:
        yield from _node_tensors(function.node)
        yield from _attribute_tensors(function.attribute_proto)
    for training in proto.training_info:
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
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            yield from _graph_tensors(graph)

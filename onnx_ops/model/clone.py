"""Copies of onnx-ir models, unsorted ones included, which onnx-ir does not clone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir

from onnx_ops.model.nodes import node_name
from onnx_ops.model.read import describe_cause
from onnx_ops.model.walk import graphs_in, model_graphs
from sliceport.errors import ModelError

logger = logging.getLogger(__name__)


def clone_sorted(model: ir.Model) -> ir.Model:
    """Return a copy that shares the tensors. The nodes of its main graph and of its functions are sorted.

    Raises:
        ModelError: A node reads a value that nothing defines, or nodes wait for each other; or a graph in a node is not
            sorted.
    """
    try:
        return model.clone()
    except Exception as error:
        logger.debug("onnx-ir does not clone the model: %s", describe_cause(error))
    try:
        return _copy_sorted(model)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(explain_no_clone(model, error)) from error


def explain_no_clone(model: ir.Model, error: BaseException) -> str:
    """Describe in a sentence why onnx-ir does not clone a model.

    Args:
        model: The model.
        error: The error that onnx-ir raised.
    """
    functions = [function.graph for function in model.functions.values()]
    graphs = {id(graph): graph for graph in (*model_graphs(model), *functions)}
    nodes = [node for graph in graphs.values() for node in graph]
    for node in nodes:
        for value in _values_read(node):
            producer = value.producer()
            is_defined = producer is not None or value.is_graph_input() or value.is_initializer()
            if not is_defined or id(value.graph if producer is None else producer.graph) not in graphs:
                return f"node {node_name(node)!r} reads value {value.name!r}, which nothing defines."
    position = {id(node): i for graph in graphs.values() for i, node in enumerate(graph)}
    for node in nodes:
        for value in _values_read(node):
            producer = value.producer()
            if producer is not None and producer.graph is node.graph and position[id(producer)] >= position[id(node)]:
                return (
                    f"its nodes are not sorted: node {node_name(node)!r} reads value {value.name!r} before node "
                    f"{node_name(producer)!r} writes it; sort them, as TopologicalSortPass of onnx_ir does."
                )
    return f"the model cannot be copied: {describe_cause(error)}."


def _copy_sorted(model: ir.Model) -> ir.Model:
    functions = [
        ir.Function(
            each.domain, each.name, each.overload, graph=_clone_graph(each.graph), attributes=each.attributes.values()
        )
        for each in model.functions.values()
    ]
    return model_like(model, _clone_graph(model.graph), functions)


def model_like(model: ir.Model, graph: ir.Graph, functions: Sequence[ir.Function]) -> ir.Model:
    """Return a model of other graphs and functions with the metadata of a model."""
    newer: dict[str, Any] = {  # attributes that the oldest supported release lacks
        name: getattr(model, name) for name in ("device_configurations",) if hasattr(model, name)
    }
    return ir.Model(
        graph,
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=functions,
        metadata_props=dict(model.metadata_props),
        **newer,
    )


def _clone_graph(graph: ir.Graph) -> ir.Graph:
    # A view holds the nodes in another order, which a graph cannot do without moving them in the caller's model.
    view = ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=_sort(graph),
        initializers=list(graph.initializers.values()),
        doc_string=graph.doc_string,
        opset_imports=dict(graph.opset_imports),
        name=graph.name,
        metadata_props=dict(graph.metadata_props),
    )
    view.meta.update(graph.meta)
    return view.clone()


def _sort(graph: ir.Graph) -> list[ir.Node]:
    """Return the nodes of a graph, each after those that write its inputs, otherwise in their order.

    Raises:
        ModelError: The graph has a cycle.
    """
    done: dict[int, ir.Node] = {}
    waiting: set[int] = set()
    for first in graph:
        stack = [first]
        while stack:
            node = stack[-1]
            if id(node) in done:
                stack.pop()
                continue
            missing = [each for each in _producers(node) if each.graph is graph and id(each) not in done]
            if not missing:
                done[id(node)] = stack.pop()
                continue
            waiting.add(id(node))
            if any(id(each) in waiting for each in missing):
                raise ModelError("a graph has a cycle: some of its nodes wait for each other.")
            stack += reversed(missing)
    return list(done.values())


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the nodes that write the values that a node, or a graph in it, reads."""
    for value in _values_read(node):
        producer = value.producer()
        if producer is not None:
            yield producer


def _values_read(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node reads, then those that the graphs in it read or return."""
    yield from (value for value in node.inputs if value is not None)
    for graph in graphs_in(node):
        for inner in graph:
            yield from _values_read(inner)
        yield from graph.outputs

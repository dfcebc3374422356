"""Sorting of the graphs of a ModelProto."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

import onnx

from onnx_ops.model.proto_walk import graphs_of, model_nodes
from sliceport.errors import ModelError


def sort_graphs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model, in which every node comes after the nodes whose outputs it or its subgraphs read.

    Raises:
        ModelError: A graph has a cycle.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    bodies = [graph for node in model_nodes(copy) for each in node.attribute for graph in graphs_of(each)]
    for holder in (*reversed(bodies), copy.graph, *copy.functions):  # a graph is copied after the graphs in its nodes
        ordered = onnx.GraphProto(node=_sort(holder.node))
        del holder.node[:]
        holder.node.extend(ordered.node)
    return copy


def _sort(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return the nodes of a graph in an order in which they can run, which is close to their order in the graph."""
    producers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    # The nodes are sorted from the last one on, so each node waits for its readers.
    readers: dict[int, set[int]] = {i: set() for i in range(len(nodes))}
    for i, node in enumerate(nodes):
        for name in _names_read_by(node) & producers.keys():
            readers[producers[name]].add(i)
    sorter = TopologicalSorter(readers)
    try:
        sorter.prepare()
    except CycleError:
        raise ModelError("a graph has a cycle: some of its nodes wait for each other.") from None
    ready: list[int] = []
    order: list[onnx.NodeProto] = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heappush(ready, -i)
        last = -heappop(ready)
        order.append(nodes[last])
        sorter.done(last)
    return order[::-1]


def _names_read_by(node: onnx.NodeProto) -> set[str]:
    """Return the names of the values that a node and its subgraphs read, without those that a subgraph defines."""
    names = set(node.input)
    for graph in (graph for attribute in node.attribute for graph in graphs_of(attribute)):
        defined = {name for inner in graph.node for name in inner.output}
        defined.update(value.name for value in (*graph.input, *graph.initializer))
        for inner in graph.node:
            names |= _names_read_by(inner) - defined
    return names

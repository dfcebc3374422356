"""Walking onnx-ir models of many nodes.

The orders are those of onnx-ir's own iterators, which take several times as long.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

_GRAPH = ir.AttributeType.GRAPH
_HOLDING = (_GRAPH, ir.AttributeType.GRAPHS)


def all_nodes(holder: ir.Graph | ir.Function) -> Iterator[ir.Node]:
    """The nodes of a graph or a function, each followed by those of the graphs in it; they may change meanwhile."""
    for node in holder:
        yield node
        for graph in graphs_in(node):
            yield from all_nodes(graph)


def all_graphs(model: ir.Model) -> list[ir.Graph]:
    """The main graph and the graphs in its nodes, as `ir.Model.graphs` has them."""
    return [model.graph, *dict.fromkeys(_subgraphs(model.graph))]


def model_graphs(model: ir.Model) -> list[ir.Graph]:
    """The main graph, and the graphs in its nodes and in those of the functions."""
    found = dict.fromkeys(all_graphs(model))
    for function in model.functions.values():
        found.update(dict.fromkeys(_subgraphs(function)))
    return list(found)


def model_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes of the main graph and of the functions, and of the graphs in them."""
    yield from all_nodes(model.graph)
    for function in model.functions.values():
        yield from all_nodes(function)


def _subgraphs(graph: ir.Graph | ir.Function) -> Iterator[ir.Graph]:
    for node in graph:
        for inner in graphs_in(node):
            yield inner
            yield from _subgraphs(inner)


def graphs_in(node: ir.Node) -> list[ir.Graph]:
    """The graphs in the attributes of a node, not those in their nodes."""
    attributes = node.attributes.data  # the dictionary itself
    if not attributes:
        return _NONE
    found = _NONE
    for attribute in attributes.values():
        if attribute.type in _HOLDING and not attribute.is_ref():
            found = [*found, *((attribute.value,) if attribute.type == _GRAPH else attribute.value)]
    return found


def count_uses(value: ir.Value) -> int:
    """How often nodes read a value: `len(value.uses())` without the copy, which is long where many nodes do."""
    uses = getattr(value, "_uses", None)
    return len(value.uses() if uses is None else uses)


_NONE: list[ir.Graph] = []

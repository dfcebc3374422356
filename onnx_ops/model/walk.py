"""Walks over the nodes, graphs and values of a model, in either view of it.

Loading this module does not load onnx-ir. The orders are those of onnx-ir's own iterators, which take several times as
long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN, standard_opset
from onnx_ops.model.nodes import node_name
from onnx_ops.model.views import GRAPH, GRAPHS, AttributeView, NodeView
from sliceport.slicing.node import extend_scope

if TYPE_CHECKING:
    import onnx_ir as ir

Node = TypeVar("Node", bound=NodeView)


def graphs_in(node: NodeView) -> Sequence[Any]:
    """Return the graphs in the attributes of a node, without the graphs nested in these graphs."""
    attributes = node.attributes
    attributes = getattr(attributes, "data", attributes)  # the dictionary inside onnx-ir's class is faster
    if not attributes:  # the common case
        return ()
    graphs: tuple[Any, ...] = ()
    for attribute in attributes.values():
        if attribute.type in (GRAPH, GRAPHS):  # avoids most calls of `graphs_of`
            graphs += graphs_of(attribute)
    return graphs


def graphs_of(attribute: AttributeView) -> tuple[Any, ...]:
    """Return the graphs that an attribute holds. A reference to an attribute of a function holds no graph."""
    if attribute.type not in (GRAPH, GRAPHS) or attribute.ref_attr_name:
        return ()
    return (attribute.value,) if attribute.type == GRAPH else tuple(attribute.value)


def all_nodes(holder: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes of a graph or a function, each followed by the nodes of the graphs in it.

    The caller may change the node that it has just received. The graphs in this node are read afterwards.
    """
    for node in holder:
        yield node
        for graph in graphs_in(node):
            yield from all_nodes(graph)


def scoped_nodes(graph: Iterable[Node], scope: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield (scope, node) for each node of a graph and its subgraphs. See `NodeInModel.scope`."""
    used: dict[str, int] = {}
    for node in graph:
        yield scope, node
        if graphs_in(node):
            for name, attribute in node.attributes.items():
                for subgraph in graphs_of(attribute):
                    yield from scoped_nodes(subgraph, extend_scope(scope, node_name(node), name, used))


def all_values(graph: Any) -> Iterator[Any]:
    """Yield the inputs of a graph, then for each node its outputs and the values of its graphs. Omit initializers."""
    yield from graph.inputs
    for node in graph:
        yield from node.outputs
        for subgraph in graphs_in(node):
            yield from all_values(subgraph)


def graphs_outside_functions(model: ir.Model) -> list[ir.Graph]:
    """Return the main graph and the graphs in its nodes, in the order of `ir.Model.graphs`."""
    return [model.graph, *_subgraphs(model.graph)]


def model_graphs(model: ir.Model) -> list[ir.Graph]:
    """Return the main graph, and the graphs in its nodes and in the nodes of functions, each once."""
    in_functions = (graph for function in model.functions.values() for graph in _subgraphs(function))
    return [*graphs_outside_functions(model), *dict.fromkeys(in_functions)]


def model_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes of the main graph and of the functions, including the nodes in subgraphs."""
    for holder in (model.graph, *model.functions.values()):
        yield from all_nodes(holder)


def _subgraphs(holder: ir.Graph | ir.Function) -> Iterable[ir.Graph]:
    """Return the graphs in the nodes of a graph or function, at any depth, each once."""
    return dict.fromkeys(graph for node in all_nodes(holder) for graph in graphs_in(node))


def count_uses(value: ir.Value) -> int:
    """Return `len(value.uses())`, without the copy of all uses that `uses()` makes."""
    uses = getattr(value, "_uses", None)
    return len(value.uses() if uses is None else uses)


def nodes_with_opsets(model: ir.Model) -> Iterator[tuple[ir.Node, int]]:
    """Yield the nodes of all graphs and functions, each with the version of its standard operator set."""
    version = standard_opset(model.opset_imports)
    for node in all_nodes(model.graph):
        yield node, version
    for function in model.functions.values():
        opset = standard_opset(function.opset_imports, version)
        for node in all_nodes(function):
            yield node, opset


def rewritable_nodes(model: ir.Model) -> Iterator[tuple[ir.Node, int]]:
    """Yield the nodes that may be rewritten, each with the version of its standard operator set.

    Nodes in functions of `ov_ext` are omitted, because the calls of these functions are rewritten instead.
    """
    own_functions = [function for key, function in model.functions.items() if key[0] == STRIDED_SLICE_DOMAIN]
    omitted = {node for function in own_functions for node in all_nodes(function)}
    return ((node, opset) for node, opset in nodes_with_opsets(model) if node not in omitted)

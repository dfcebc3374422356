"""Walking the nodes of a model: graphs, subgraphs and functions."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN, standard_opset
from onnx_ops.model.walk import all_nodes


def every_node(model: ir.Model) -> Iterator[tuple[ir.Node, int]]:
    """Yield the nodes of graphs, subgraphs and functions, each with the version of its standard operator set."""
    version = standard_opset(model.opset_imports)
    for node in all_nodes(model.graph):
        yield node, version
    for function in model.functions.values():
        opset = standard_opset(function.opset_imports, version)
        for node in all_nodes(function):
            yield node, opset


def rewritable_nodes(model: ir.Model) -> Iterator[tuple[ir.Node, int]]:
    """Yield every node but those in the body of `ov_ext::StridedSlice`, which is rewritten as a whole."""
    functions = [function for key, function in model.functions.items() if key[0] == STRIDED_SLICE_DOMAIN]
    inside = {node for function in functions for node in all_nodes(function)}
    return ((node, opset) for node, opset in every_node(model) if node not in inside) if inside else every_node(model)

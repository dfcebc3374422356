"""Copies of a model to infer and fold in."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.clone import explain_no_clone
from onnx_ops.model.nodes import MARK, contested, has_open_attribute
from onnx_ops.model.walk import all_nodes, model_graphs
from onnx_ops.passes.walk import every_node
from sliceport.errors import ModelError

OPAQUE_DOMAIN = "sliceport.aside"


def build_probe(model: ir.Model) -> ir.Model:
    """Return a copy of a model to infer and fold in.

    Nodes that engines read differently, and those whose attributes a call sets, are of an unknown domain in it, so that
    nothing is inferred from them.
    """
    _mark_by_constants(model)
    probe = clone_model(model)
    marked = [node for node, _ in every_node(probe) if MARK in node.meta]
    if marked:  # what the file says of sizes may follow from them
        for node, _ in every_node(probe):
            for output in node.outputs:
                output.shape = None
        for graph in model_graphs(probe):
            for value in () if graph is probe.graph else graph.inputs:
                value.shape = None
    for node in [*marked, *filter(has_open_attribute, all_nodes(probe.graph))]:
        node.domain = OPAQUE_DOMAIN
    for imports in (probe.opset_imports, *(function.opset_imports for function in probe.functions.values())):
        imports[OPAQUE_DOMAIN] = 1
    return probe


def clone_model(model: ir.Model) -> ir.Model:
    """Return a copy.

    Raises:
        ModelError: A node reads a value that nothing defines, or that a later node writes.
    """
    try:
        return model.clone()
    except Exception as error:
        raise ModelError(f"the model is not well-formed: {explain_no_clone(model, error)}") from error


def _mark_by_constants(model: ir.Model) -> None:
    """Mark the nodes that engines read differently because of the constants that they read."""
    for node, opset in every_node(model):
        disagreement = contested(node, opset)
        if disagreement is not None:
            node.meta[MARK] = disagreement

"""Marks of contested nodes, which engines read differently. Copies of models in which these nodes are opaque."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as ir

from onnx_ops.defects.contested import find_disagreement
from onnx_ops.model.defaults import without_defaults
from onnx_ops.model.nodes import CONTESTED, ORIGIN, USED
from onnx_ops.model.read import describe_cause, read_any
from onnx_ops.model.views import NodeView
from onnx_ops.model.walk import model_graphs, nodes_with_opsets
from sliceport.errors import model_error

OPAQUE_DOMAIN = "sliceport.aside"
"""A domain without operators. Nothing is inferred from a node of this domain."""


@contextmanager
def ready_for_passes(model: ir.Model) -> Iterator[None]:
    """Remove the defaults of inputs inside the context (see `without_defaults`), and all marks at its end."""
    with without_defaults(model):
        try:
            yield
        finally:
            unmark(model)


def unmark(model: ir.Model, keys: Sequence[str] = (CONTESTED, ORIGIN, USED)) -> None:
    """Remove marks from the `meta` of nodes. By default, remove all marks but that of `mark_new`."""
    for node, _ in nodes_with_opsets(model):
        for key in keys:
            node.meta.pop(key, None)


def build_probe(model: ir.Model) -> ir.Model:
    """Build a probe: a copy of a model, for inference, for folding nodes, and for optimizers.

    Contested nodes, which engines read differently, get `OPAQUE_DOMAIN` in the copy, so nothing is inferred from them.
    If any node is contested, outputs of nodes and inputs of bodies have no declared shapes in the copy.

    Args:
        model: The model. Nodes that constants and declared shapes show to be contested are marked in it.

    Raises:
        ModelError: See `clone_model`.
    """
    for node, opset in nodes_with_opsets(model):
        mark_contested(node, node, opset)
    probe = clone_model(model)
    marked = [node for node, _ in nodes_with_opsets(probe) if CONTESTED in node.meta]
    if marked:  # the declared shapes of other values may follow from one reading of a contested node
        bodies = [graph for graph in model_graphs(probe) if graph is not probe.graph]
        outputs = [output for node, _ in nodes_with_opsets(probe) for output in node.outputs]
        for value in (*outputs, *(value for body in bodies for value in body.inputs)):
            value.shape = None
    for node in marked:
        node.domain = OPAQUE_DOMAIN
    for imports in (probe.opset_imports, *(function.opset_imports for function in probe.functions.values())):
        imports[OPAQUE_DOMAIN] = 1
    return probe


def mark_contested(node: ir.Node, copy: NodeView, opset: int) -> bool:
    """Mark a node if engines read it differently. Return whether the mark is new.

    The test is made on `copy`: the node itself, or its copy in a model in which more is known about its inputs.
    """
    disagreement = None if CONTESTED in node.meta else find_disagreement(copy, opset)
    if disagreement is not None:
        node.meta[CONTESTED] = disagreement
    return disagreement is not None


def clone_model(model: ir.Model) -> ir.Model:
    """Return a copy of a model.

    Raises:
        ModelError: The model is not well-formed: a node reads a value that is defined nowhere, or only later.
    """
    try:
        return model.clone()
    except Exception as error:  # onnx-ir has several classes of errors for such models
        unsorted = "its nodes are not sorted; sort them, as TopologicalSortPass of onnx_ir does"
        reason = describe_cause(error) if read_any(model).findings.is_sorted else unsorted
        raise model_error(f"the model is not well-formed: {reason}.", error) from error

"""Marks of nodes that engines read differently, and copies of models in which nothing is inferred from these nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_ops.infer.inference import infer_shapes
from onnx_ops.model.clone import explain_no_clone
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.ir_model import IrModel
from onnx_ops.model.nodes import MARK, contested, has_open_attribute, is_standard, read_elements, slice_spec
from onnx_ops.model.prepare import inline_functions
from onnx_ops.model.walk import all_nodes, model_graphs
from onnx_ops.passes.walk import every_node
from sliceport.errors import DynamicSlice, InvalidSlice, ModelError

OPAQUE_DOMAIN = "sliceport.aside"
_NUMBER = "sliceport.number"
_SLICE_INPUTS = 5
_MAX_STEPS = 64


def unmark(model: ir.Model) -> None:
    """Remove the marks of nodes that engines read differently."""
    for node, _ in every_node(model):
        node.meta.pop(MARK, None)


def mark_by_sizes(model: ir.Model, found: Mapping[ir.Value, Sequence[int | None]]) -> bool:
    """Mark nodes that engines read differently because of the sizes that were found; return whether there were any."""
    changed = False
    for node, opset in every_node(model):
        data = node.inputs[0] if node.inputs else None
        sizes = None if data is None else found.get(data)
        disagreement = None if sizes is None or MARK in node.meta else contested(node, opset, sizes)
        if disagreement is not None:
            node.meta[MARK] = disagreement
            changed = True
    return changed


def mark_computed(model: ir.Model) -> None:
    """Mark nodes that engines read differently because of computed constants, in functions at any call."""
    doubtful = [node for node, opset in every_node(model) if _is_doubtful(node, opset)]
    while [node for node in doubtful if MARK not in node.meta]:
        for i, node in enumerate(doubtful):
            node.meta[_NUMBER] = i
        probe = build_probe(model)
        for node in doubtful:
            del node.meta[_NUMBER]
        try:
            inline_functions(probe)
        except ModelError:
            return
        for value, facts in infer_shapes(IrModel(probe)).items():
            if facts.data is not None and value.const_value is None:
                value.const_value = ir.tensor(facts.data)
        version = standard_opset(model.opset_imports)
        turned_out = [
            (node, disagreement)
            for node in all_nodes(probe.graph)
            if _NUMBER in node.meta and (disagreement := contested(node, version)) is not None
        ]
        for node, disagreement in turned_out:
            doubtful[node.meta[_NUMBER]].meta[MARK] = disagreement
        if not turned_out:
            return


def _is_doubtful(node: ir.Node, opset: int) -> bool:
    """Return whether the bounds of a Slice are not known, and may be some that engines read differently."""
    steps = node.inputs[_SLICE_INPUTS - 1] if is_standard(node, "Slice") and len(node.inputs) == _SLICE_INPUTS else None
    if steps is None:
        return False
    try:
        slice_spec(node, opset)
    except DynamicSlice:
        return not _are_ones(steps)
    except InvalidSlice:
        pass
    return False


def _are_ones(value: ir.Value) -> bool:
    steps = read_elements(value, _MAX_STEPS)
    return steps is not None and bool((steps == 1).all())


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
    """Return a copy of a model.

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

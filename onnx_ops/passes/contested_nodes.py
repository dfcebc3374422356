"""Marking the nodes that engines read differently, from which nothing may be inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_ops.infer.inference import infer_shapes
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.ir_model import IrModel
from onnx_ops.model.nodes import MARK, contested, is_standard, read_elements, slice_spec
from onnx_ops.model.prepare import inline_functions
from onnx_ops.model.walk import all_nodes
from onnx_ops.passes.probe import build_probe
from onnx_ops.passes.walk import every_node
from sliceport.errors import DynamicSlice, InvalidSlice, ModelError

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

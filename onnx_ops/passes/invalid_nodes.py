"""Slicing nodes that break their specification. Sizes that are not known break nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_ops.infer.facts import Facts
from onnx_ops.model.conditions import check_node
from onnx_ops.model.nodes import is_slicing
from sliceport.errors import DynamicSlice, InvalidSlice


def find_invalid(
    nodes: Sequence[tuple[ir.Node, ir.Node]], facts: Mapping[ir.Value, Facts], opset: int
) -> dict[ir.Node, str]:
    """Return the slicing nodes that break their specification, each with the rule and the value that breaks it.

    Args:
        nodes: Nodes, each with its copy in a probe, whose values have the inferred shapes.
        facts: Facts about the values of the probe. Parameters whose elements are known become constants there.
        opset: Version of the operator set.
    """
    invalid: dict[ir.Node, str] = {}
    for node, twin in nodes:
        if is_slicing(twin) and twin.graph is not None:  # else folded, and so valid
            _set_constants(twin, facts)
            try:
                check_node(twin, opset)
            except InvalidSlice as error:
                invalid[node] = str(error)
            except DynamicSlice:
                pass
    return invalid


def _set_constants(twin: ir.Node, facts: Mapping[ir.Value, Facts]) -> None:
    for value in twin.inputs[1:]:
        known = None if value is None or value.const_value is not None else facts.get(value)
        if value is not None and known is not None and known.data is not None:
            value.const_value = ir.Tensor(known.data, dtype=ir.DataType(known.element))

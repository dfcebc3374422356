"""Slicing nodes that break their specification. Sizes that are not known break nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_ops.infer.facts import Facts
from onnx_ops.model.nodes import (
    MAX_AXES,
    is_slicing,
    is_strided_slice,
    read_int,
    slice_spec,
    split_spec,
    strided_slice_spec,
)
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing.spec import normalize_axis


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
                _check(twin, opset)
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


def _check(node: ir.Node, opset: int) -> None:
    """Check a slicing node as far as the sizes of its data are known.

    Raises:
        InvalidSlice: The node breaks its specification.
        DynamicSlice: A parameter is not known.
    """
    data = node.inputs[0] if node.inputs else None
    if data is None:
        raise InvalidSlice("data is missing")
    if node.op_type != "Split" and len(node.outputs) != 1:
        raise InvalidSlice(f"{node.op_type} has 1 output, got {len(node.outputs)}")
    shape = data.shape if data.shape is not None or data.const_value is None else data.const_value.shape
    sizes = None if shape is None else [dim if isinstance(dim, int) else None for dim in shape]
    if is_strided_slice(node):
        strided = strided_slice_spec(node)
        if sizes is not None:
            strided.check(sizes)
    elif node.op_type == "Slice":
        # The rules hold for every rank, so that any large one shows what breaks them if the rank is not known.
        slice_spec(node, opset).check(MAX_AXES if sizes is None else len(sizes))
    else:
        _check_split(node, opset, [None] * MAX_AXES if sizes is None else sizes)


def _check_split(node: ir.Node, opset: int, sizes: Sequence[int | None]) -> None:
    # The number of outputs stands for a size that is not known, because it divides into equal parts.
    whole = [len(node.outputs) if size is None else size for size in sizes]
    parts = split_spec(node, opset, tuple(whole))
    axis = normalize_axis(read_int(node, "axis", 0), len(sizes))
    if sizes[axis] is None:
        whole[axis] = sum(parts.sizes)
    parts.resolve(whole)

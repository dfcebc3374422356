"""Slicing nodes that break their specification. Sizes that are not known break nothing."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ops.model.nodes import (
    MAX_AXES,
    is_strided_slice,
    read_int,
    slice_spec,
    split_spec,
    strided_slice_spec,
)
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing.spec import normalize_axis


def find_invalid(slicing: Sequence[tuple[ir.Node, ir.Node]], opset: int) -> dict[ir.Node, str]:
    """Return the slicing nodes that break their specification, each with the rule and the value that breaks it.

    Args:
        slicing: Slicing nodes, each with its copy in a probe, whose values have the inferred shapes and constants.
        opset: Version of the operator set.
    """
    invalid: dict[ir.Node, str] = {}
    for node, copy in slicing:
        try:
            _check(copy, opset)
        except InvalidSlice as error:
            invalid[node] = str(error)
        except DynamicSlice:
            pass
    return invalid


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

"""Parts of a Split that gate each other, as in a GLU. onnxruntime's DirectML provider computes these wrongly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator
from onnx_ops.passes.edits import Identities
from sliceport.defects.onnxruntime import ONE_PART_GATES_ANOTHER

WOULD_BE_GATED = f"it would make {ONE_PART_GATES_ANOTHER.trigger}, where {ONE_PART_GATES_ANOTHER.effect}"


def is_gated(parts: Sequence[ir.Value]) -> bool:
    """Return whether one part is multiplied by the Sigmoid of another, through Identity."""
    read_by: dict[ir.Node, set[int]] = defaultdict(set)
    for i, part in enumerate(parts):
        for product, _ in _find_readers(part, "Mul"):
            read_by[product].add(i)
    return any(
        read_by[product] - {i}
        for i, gate in enumerate(parts)
        for _, sigmoid in _find_readers(gate, "Sigmoid")
        for product, _ in _find_readers(sigmoid, "Mul")
        if product in read_by
    )


def would_be_gated(parts: Collection[ir.Value], added: Sequence[ir.Value], identities: Identities) -> bool:
    """Return whether one of the parts would gate another if values were added to them, and none does yet.

    Values that already gate each other make nothing worse.
    """
    others = {other for value in added for other in _find_others(value, identities)}
    return bool(others) and not others.isdisjoint(parts) and not is_gated(list(parts)) and not is_gated(added)


def _find_others(part: ir.Value, identities: Identities) -> Iterator[ir.Value]:
    """Yield the values that gate a part and those that the part gates."""
    for product, _ in _find_readers(part, "Mul"):
        for factor in _list_sources(product, identities):
            sigmoid = factor.producer()
            if is_operator(sigmoid, "Sigmoid"):
                yield from _list_sources(sigmoid, identities)
    for _, gate in _find_readers(part, "Sigmoid"):
        for product, _ in _find_readers(gate, "Mul"):
            yield from _list_sources(product, identities)


def _list_sources(node: ir.Node, identities: Identities) -> list[ir.Value]:
    """Return the inputs of a node, before chains of Identity."""
    return [identities.skip(value) for value in node.inputs if value is not None]


def _find_readers(value: ir.Value, op_type: str) -> Iterator[tuple[ir.Node, ir.Value]]:
    """Yield the nodes of an operator that read a value, through Identity, each with its output."""
    waiting = [value]
    while waiting:
        for node in waiting.pop().consumers():
            if is_operator(node, op_type):
                yield node, node.outputs[0]
            elif is_operator(node, "Identity"):
                waiting.append(node.outputs[0])

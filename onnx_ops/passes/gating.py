"""Parts of a Split of which one gates another, as in a GLU: onnxruntime's DirectML provider computes that wrongly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.identities import Identities
from sliceport.defects.onnxruntime import ONE_PART_GATES_ANOTHER

WOULD_BE_GATED = f"it would make {ONE_PART_GATES_ANOTHER.trigger}, where {ONE_PART_GATES_ANOTHER.effect}"


def is_gated(parts: Sequence[ir.Value]) -> bool:
    """Whether one part is multiplied by the Sigmoid of another, through Identity."""
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


def would_be_gated(successors: Mapping[ir.Value, ir.Value | None], identities: Identities) -> bool:
    """Whether replacing values would make one part of a Split gate another, which none does yet."""
    added: dict[ir.Node, list[ir.Value]] = defaultdict(list)
    for value, successor in successors.items():
        source = None if successor is None else identities.skip(successor)
        split = None if source is None else source.producer()
        if is_operator(split, "Split"):
            added[split].append(value)
    return any(
        any(_is_in_product(value) for value in values)  # or there is nothing new; a Split may have many parts
        and is_gated([*split.outputs, *values])
        and not is_gated(split.outputs)
        and not is_gated(values)
        for split, values in added.items()
    )


def _is_in_product(value: ir.Value) -> bool:
    """Whether a Mul or a Sigmoid reads a value, through Identity."""
    return any(True for op_type in ("Mul", "Sigmoid") for _ in _find_readers(value, op_type))


def _find_readers(value: ir.Value, op_type: str) -> Iterator[tuple[ir.Node, ir.Value]]:
    """The nodes of an operator that read a value, through Identity, each with its output."""
    waiting = [value]
    while waiting:
        for node in waiting.pop().consumers():
            if is_operator(node, op_type):
                yield node, node.outputs[0]
            elif is_operator(node, "Identity"):
                waiting.append(node.outputs[0])

"""Parts of a Split that gate each other, as in a GLU: one part is multiplied by the Sigmoid of another.

onnxruntime's DirectML provider computes such parts wrongly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from onnx_ops.model.conditions import find_readers, is_gated
from onnx_ops.model.nodes import is_operator
from onnx_ops.passes.edits import Identities
from sliceport.defects.onnxruntime import ONE_PART_GATES_ANOTHER

WOULD_BE_GATED = f"it would make {ONE_PART_GATES_ANOTHER.trigger}, where {ONE_PART_GATES_ANOTHER.effect}"
"""The reason for which a pass does not write such a Split."""


def would_be_gated(parts: Collection[ir.Value], added: Sequence[ir.Value], identities: Identities) -> bool:
    """Return whether adding the values in `added` to the `parts` of a Split would make one part gate another.

    The result is False if two of `parts`, or two of `added`, gate each other already, because the provider then
    computes wrong values with or without the addition.
    """
    partners = {partner for value in added for partner in _find_partners(value, identities)}
    return bool(partners) and not partners.isdisjoint(parts) and not is_gated(list(parts)) and not is_gated(added)


def _find_partners(part: ir.Value, identities: Identities) -> Iterator[ir.Value]:
    """Yield the values that gate a part, and the factors of the products that the part gates."""
    for product, _ in find_readers(part, "Mul"):
        for factor in _list_sources(product, identities):
            sigmoid = factor.producer()
            if is_operator(sigmoid, "Sigmoid"):
                yield from _list_sources(sigmoid, identities)
    for _, gate in find_readers(part, "Sigmoid"):
        for product, _ in find_readers(gate, "Mul"):
            yield from _list_sources(product, identities)


def _list_sources(node: ir.Node, identities: Identities) -> list[ir.Value]:
    """Return the source of each input of a node; see `Identities`."""
    return [identities.source_of(value) for value in node.inputs if value is not None]

"""Parts of a Split that gate each other, as in a GLU: one part is multiplied by the Sigmoid of another.

onnxruntime's DirectML provider computes such parts wrongly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from onnx_ops.defects.conditions import find_readers, is_gated
from onnx_ops.model.nodes import is_valid_operator
from onnx_ops.passes.edits import Identities
from sliceport.defects.entries import read_entries

_GATED = read_entries("onnxruntime")["one part gates another"]
WOULD_BE_GATED = f"it would make {_GATED.trigger}, where {_GATED.effect}"
"""The reason why a pass skips a node: one part of a Split would gate another part."""


def would_be_gated(parts: Collection[ir.Value], added: Sequence[ir.Value], identities: Identities) -> bool:
    """Return whether one part of a Split would gate another if the values in `added` became parts, too.

    A part gates another part if its Sigmoid is multiplied by the other part. onnxruntime's DirectML provider computes
    such a Split wrongly. The result is False if `parts` alone or `added` alone has such a pair, because the provider
    then computes wrong values in any case.
    """
    partners = {partner for value in added for partner in _find_partners(value, identities)}
    return bool(partners) and not partners.isdisjoint(parts) and not is_gated(list(parts)) and not is_gated(added)


def _find_partners(part: ir.Value, identities: Identities) -> Iterator[ir.Value]:
    """Yield each `x` of a product `part * Sigmoid(x)` or `x * Sigmoid(part)`."""
    for product, _ in find_readers(part, "Mul"):
        for factor in _list_sources(product, identities):
            sigmoid = factor.producer()
            if is_valid_operator(sigmoid, "Sigmoid"):
                yield from _list_sources(sigmoid, identities)
    for _, gate in find_readers(part, "Sigmoid"):
        for product, _ in find_readers(gate, "Mul"):
            # This includes `gate`. That does no harm, because the output of a Sigmoid is not a part of a Split.
            yield from _list_sources(product, identities)


def _list_sources(node: ir.Node, identities: Identities) -> list[ir.Value]:
    """Return the inputs that a node has. Replace the output of an Identity by the value that the Identity copies."""
    return [identities.source_of(value) for value in node.inputs if value is not None]

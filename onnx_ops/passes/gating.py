"""Parts of a Split of which one gates another, as in a GLU: onnxruntime's DirectML provider computes that wrongly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from onnx_ops.model.conditions import find_readers, is_gated
from onnx_ops.model.nodes import is_operator
from onnx_ops.passes.edits import Identities
from sliceport.defects.onnxruntime import ONE_PART_GATES_ANOTHER

WOULD_BE_GATED = f"it would make {ONE_PART_GATES_ANOTHER.trigger}, where {ONE_PART_GATES_ANOTHER.effect}"


class Gates:
    """Whether parts gate each other, while more are added."""

    def __init__(self, parts: Sequence[ir.Value], identities: Identities) -> None:
        self._parts = set(parts)
        self._identities = identities
        self._is_gated: bool | None = None

    def add(self, parts: Sequence[ir.Value]) -> bool:
        """Add parts; not those of which one would gate one that is there or the reverse, if none gates another yet."""
        is_new = any(other in self._parts for part in parts for other in self._find_others(part))
        if is_new and not self._are_gated() and not is_gated(parts):
            return False
        if not self._is_gated:
            self._is_gated = is_new or is_gated(parts) or self._is_gated
        self._parts.update(parts)
        return True

    def _are_gated(self) -> bool:
        if self._is_gated is None:
            self._is_gated = is_gated(list(self._parts))
        return self._is_gated

    def _find_others(self, part: ir.Value) -> Iterator[ir.Value]:
        """Yield the values that gate a part and those that the part gates."""
        for product, _ in find_readers(part, "Mul"):
            for factor in self._sources(product):
                sigmoid = factor.producer()
                if is_operator(sigmoid, "Sigmoid"):
                    yield from self._sources(sigmoid)
        for _, gate in find_readers(part, "Sigmoid"):
            for product, _ in find_readers(gate, "Mul"):
                yield from self._sources(product)

    def _sources(self, node: ir.Node) -> list[ir.Value]:
        """Return the inputs of a node, before chains of Identity."""
        return [self._identities.skip(value) for value in node.inputs if value is not None]


def would_be_gated(successors: Mapping[ir.Value, ir.Value | None], identities: Identities) -> bool:
    """Return whether replacing values would make one part of a Split gate another, which none does yet."""
    added: dict[ir.Node, list[ir.Value]] = defaultdict(list)
    for value, successor in successors.items():
        source = None if successor is None else identities.skip(successor)
        split = None if source is None else source.producer()
        if is_operator(split, "Split"):
            added[split].append(value)
    return any(not Gates(split.outputs, identities).add(values) for split, values in added.items())

"""The values before chains of Identity nodes."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator


class Identities:
    """The values before chains of Identity nodes, of which each node is walked once."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, ir.Value] = {}

    def skip(self, value: ir.Value) -> ir.Value:
        """Return the value before all Identity nodes that lead to this one."""
        walked = []
        while (before := self._before(value)) is not None:
            walked.append(value)
            value = before
        self._known.update(dict.fromkeys(walked, value))
        return value

    def replace(self, value: ir.Value, successor: ir.Value) -> None:
        """Take down that all nodes read another value instead of one."""
        if value in self._known:  # nodes after this Identity may be known to follow from what is before it
            self._known.clear()
        else:
            self._known[value] = successor

    def _before(self, value: ir.Value) -> ir.Value | None:
        known = self._known.get(value)
        if known is not None:
            return known
        producer = value.producer()
        return producer.inputs[0] if is_operator(producer, "Identity") else None

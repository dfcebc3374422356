"""The values that are visible in a graph, with their facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from onnx_ops.infer.facts import NO_FACTS, Facts


@dataclass
class Scope:
    """The values that are visible in a graph or in a call of a function.

    Attributes:
        outer: The scope of the graph around a subgraph; None for the main graph and for functions.
        opsets: The version of each operator set, by domain.
        attributes: The attributes of the innermost function call, with the function's defaults, by name.
        depth: The number of subgraphs and function calls around the nodes.
        is_reported: Whether `propagate` returns the facts of the values. It returns no facts of values in functions.
        declared: The declared types of the values that nodes of the graph or function compute, by name.
        facts: The facts of the inputs, the initializers and the values that nodes compute, by name.
    """

    outer: Scope | None
    opsets: Mapping[str, int]
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    depth: int = 0
    is_reported: bool = True
    declared: dict[str, onnx.TypeProto] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)

    def enter(self) -> Scope:
        """Return the scope of a subgraph of a node in this scope."""
        return Scope(self, self.opsets, self.attributes, self.depth + 1, self.is_reported)

    def declare(self, values: Iterable[onnx.ValueInfoProto]) -> None:
        """Add the types of values to `declared`. Skip values without a type."""
        self.declared |= {value.name: value.type for value in values if value.type.WhichOneof("value")}

    def find_facts(self, name: str) -> Facts:
        """Return the facts of a value from the innermost scope that contains the value, or `NO_FACTS`."""
        scope: Scope | None = self
        while scope is not None:
            facts = scope.facts.get(name)
            if facts is not None:
                return facts
            scope = scope.outer
        return NO_FACTS

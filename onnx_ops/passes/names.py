"""Names of new values and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import onnx_ir as ir

from onnx_ops.model.walk import model_graphs, model_nodes

_NEW = "sliceport.new"
_LONGEST = 200
"""Characters of a name that go into others, so that a few names of megabytes do not become gigabytes."""


@dataclass(frozen=True)
class NodeNames:
    """The nodes of a model at some time, and their names.

    Attributes:
        nodes: The nodes of graphs, subgraphs and functions.
        counts: By graph, how many nodes have a name.
    """

    nodes: frozenset[ir.Node]
    counts: Counter[tuple[int, str]]

    @classmethod
    def of(cls, model: ir.Model) -> NodeNames:
        """Return the nodes of a model as it is, and their names."""
        nodes = _nodes(model)
        return cls(frozenset(nodes), Counter(map(_place, nodes)))


def make_node_names_unique(model: ir.Model, before: NodeNames) -> None:
    """Give the nodes that have been added names that no other node of the model has, in any graph.

    A node keeps a name that as many nodes of its graph had before, for it has it from one that it replaces. A node
    without a name stays without one.

    Args:
        model: The model.
        before: Its nodes before.
    """
    nodes = _nodes(model)
    new = [node for node in nodes if node.name and node not in before.nodes]
    if not new:
        return
    places = Counter(map(_place, nodes))
    free = _Free(Counter(node.name for node in nodes))
    for node in new:
        place = _place(node)
        if free.taken[node.name] > 1 and places[place] > before.counts[place]:
            places[place] -= 1
            node.name = free.rename(node.name)


def _nodes(model: ir.Model) -> list[ir.Node]:
    return list(model_nodes(model))


def _place(node: ir.Node) -> tuple[int, str]:
    return id(node.graph), node.name or ""


@dataclass(frozen=True)
class _Free:
    """Names that nothing has yet.

    Attributes:
        taken: The number of things that have a name.
        numbers: By what stands before a number, the numbers that have not been tried after it.
    """

    taken: Counter[str | None]
    numbers: dict[str, Iterator[int]] = field(default_factory=dict)

    def rename(self, name: str | None) -> str:
        """Take a free name instead of one that another has too."""
        base = derive_name(name or "")
        numbers = self.numbers.setdefault(base, count())
        new = next(free for i in numbers if (free := f"{base}_{i}") not in self.taken)
        self.taken[name] -= 1
        self.taken[new] += 1
        return new


def derive_name(*parts: str) -> str:
    """Return a name of these parts, each of which is cut off where it is long."""
    return "_".join(part[:_LONGEST] for part in parts)


def mark_new(value: ir.Value) -> None:
    """Mark a new value, so that `make_names_unique` gives it a unique name."""
    value.meta[_NEW] = True


def make_names_unique(model: ir.Model) -> None:
    """Give new values names that nothing else in the model has, in graphs around or inside their own either."""
    values = [output for node in _nodes(model) for output in node.outputs]
    new = [value for value in values if value.meta.pop(_NEW, False)]
    if not new:
        return
    taken = Counter(value.name for value in values)
    held = ((*graph.inputs, *graph.initializers.values()) for graph in model_graphs(model))
    taken.update({value.name for each in held for value in each})
    taken.update(value.name for function in model.functions.values() for value in function.inputs)
    free = _Free(taken)
    for value in new:
        if taken[value.name] > 1:
            value.name = free.rename(value.name)

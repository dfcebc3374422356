"""Names of new values and nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

import onnx_ir as ir

from onnx_ops.model.walk import model_graphs, model_nodes

_NEW = "sliceport.new"
"""Key in the `meta` of a marked node or value."""


def mark_new(item: ir.Node | ir.Value) -> None:
    """Mark a new node or value, so that `make_names_unique` gives it a unique name."""
    item.meta[_NEW] = True


def make_names_unique(model: ir.Model) -> None:
    """Make the name of each marked node unique among nodes, and of each marked value among values. Remove all marks."""
    nodes = list(model_nodes(model))
    _rename_new(nodes, Counter(node.name for node in nodes))
    values = [output for node in nodes for output in node.outputs]
    counts = Counter(value.name for value in values)
    graph_values = [(*graph.inputs, *graph.initializers.values()) for graph in model_graphs(model)]
    # A set, because an initializer may be an input too.
    counts.update({value.name for values_of_graph in graph_values for value in values_of_graph})
    counts.update(value.name for function in model.functions.values() for value in function.inputs)
    _rename_new(values, counts)


def _rename_new(items: Sequence[ir.Node] | Sequence[ir.Value], counts: Counter[str | None]) -> None:
    """Rename each marked item whose name has a count above 1 in `counts`. Remove all marks, and update `counts`."""
    suffixes: dict[str, Iterator[int]] = defaultdict(count)  # by name, the numbers that were not tried yet
    for item in items:
        is_new = item.meta.pop(_NEW, False)  # removes the mark
        if is_new and item.name and counts[item.name] > 1:
            candidates = (f"{item.name}_{number}" for number in suffixes[item.name])
            name = next(candidate for candidate in candidates if candidate not in counts)
            counts[item.name] -= 1
            counts[name] += 1
            item.name = name

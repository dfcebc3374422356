"""Names of new values and nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

import onnx_ir as ir

from onnx_ops.model.walk import model_graphs, model_nodes

_NEW = "sliceport.new"


def mark_new(item: ir.Node | ir.Value) -> None:
    """Mark a new node or value, so that `make_names_unique` gives it a unique name."""
    item.meta[_NEW] = True


def make_names_unique(model: ir.Model) -> None:
    """Rename the marked nodes and values whose names occur twice in the model, in any graph. Remove the marks."""
    nodes = list(model_nodes(model))
    _rename_new(nodes, Counter(node.name for node in nodes))
    values = [output for node in nodes for output in node.outputs]
    taken = Counter(value.name for value in values)
    held = ((*graph.inputs, *graph.initializers.values()) for graph in model_graphs(model))
    taken.update({value.name for each in held for value in each})
    taken.update(value.name for function in model.functions.values() for value in function.inputs)
    _rename_new(values, taken)


def _rename_new(items: Sequence[ir.Node] | Sequence[ir.Value], taken: Counter[str | None]) -> None:
    """Rename each marked item whose name another item has, and remove all marks.

    Args:
        items: Nodes or values.
        taken: The number of items that have a name.
    """
    numbers: dict[str, Iterator[int]] = defaultdict(count)  # the suffixes not tried yet of each name
    for item in items:
        if item.meta.pop(_NEW, False) and item.name and taken[item.name] > 1:
            name = next(free for i in numbers[item.name] if (free := f"{item.name}_{i}") not in taken)
            taken[item.name] -= 1
            taken[name] += 1
            item.name = name

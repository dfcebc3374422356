"""Names of new values."""

from __future__ import annotations

from collections import Counter
from itertools import count

import onnx_ir as ir

_NEW = "sliceport.new"


def mark_new(value: ir.Value) -> None:
    """Let `make_names_unique` see to a new value's name."""
    value.meta[_NEW] = True


def make_names_unique(model: ir.Model) -> None:
    """Give new values names that nothing else in the model has, in graphs around or inside their own either."""
    holders: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    values = [output for holder in holders for node in holder.all_nodes() for output in node.outputs]
    new = [value for value in values if value.meta.pop(_NEW, False)]
    if not new:
        return
    taken = Counter(value.name for value in values)
    taken.update({value.name for graph in model.graphs() for value in (*graph.inputs, *graph.initializers.values())})
    taken.update(value.name for function in model.functions.values() for value in function.inputs)
    for value in new:
        if taken[value.name] > 1:
            taken[value.name] -= 1
            value.name = next(name for i in count() if (name := f"{value.name}_{i}") not in taken)
            taken[value.name] += 1

"""What passes write: new nodes in each operator set's spelling, and what nothing reads any more goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np
import onnx_ir as ir

from sliceport.slicing import AxisSlice

SLICE_INPUTS_OPSET = 10
SPLIT_INPUT_OPSET = 13
AXES_INPUT_OPSET = 13
_NEW = "sliceport.new"
_KEPT = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)
"""Operators whose going would change what others of them draw."""


def constant_node(values: Sequence[int] | int) -> ir.Node:
    """A Constant node of a list of int64, or of one."""
    listed = values if isinstance(values, int) else list(values)
    node = ir.node("Constant", [], {"value": ir.tensor(listed, dtype=ir.DataType.INT64)})
    mark_new(node.outputs[0])
    return node


def mark_new(value: ir.Value) -> None:
    """Let `name_apart` see to a new value's name."""
    value.meta[_NEW] = True


def tensor_node(tensor: ir.TensorProtocol) -> ir.Node:
    """A Constant node of a tensor."""
    return ir.node("Constant", [], {"value": tensor})


def empty_node(shape: Sequence[int], dtype: ir.DataType) -> ir.Node:
    """A Constant node of a tensor without elements."""
    return tensor_node(ir.tensor(np.zeros(shape, dtype.numpy()), dtype=dtype))


def slice_node(data: ir.Value, entries: Mapping[int, AxisSlice], opset: int) -> list[ir.Node] | None:
    """A Slice by start, end and step of each axis, after its constants; None if the operator set lacks its steps."""
    starts, ends, steps = (list(values) for values in zip(*entries.values(), strict=True)) if entries else ([], [], [])
    axes = list(entries)
    if opset < SLICE_INPUTS_OPSET:
        if any(step != 1 for step in steps):
            return None
        return [ir.node("Slice", [data], {"starts": starts, "ends": ends, "axes": axes})]
    lists = [starts, ends, axes] + ([steps] if any(step != 1 for step in steps) else [])
    constants = [constant_node(values) for values in lists]
    return [*constants, ir.node("Slice", [data, *(node.outputs[0] for node in constants)])]


def slice_nodes(data: ir.Value, start: int, end: int, axis: int, opset: int) -> list[ir.Node]:
    """A forward Slice of one axis in the spelling of an operator set, with the constants that it reads before it."""
    made = slice_node(data, {axis: AxisSlice(start, end, 1)}, opset)
    assert made is not None
    return made


def split_node(data: ir.Value, axis: int, sizes: Sequence[int], opset: int) -> list[ir.Node]:
    """A Split into parts of these sizes, after its constant."""
    if opset < SPLIT_INPUT_OPSET:
        return [ir.node("Split", [data], {"axis": axis, "split": list(sizes)}, num_outputs=len(sizes))]
    constant = constant_node(sizes)
    node = ir.node("Split", [data, constant.outputs[0]], {"axis": axis}, num_outputs=len(sizes))
    return [constant, node]


def view_node(op_type: str, data: ir.Value, axes: Sequence[int], opset: int) -> list[ir.Node]:
    """A Squeeze or Unsqueeze of axes, after its constant."""
    if opset < AXES_INPUT_OPSET:
        return [ir.node(op_type, [data], {"axes": list(axes)})]
    constant = constant_node(axes)
    return [constant, ir.node(op_type, [data, constant.outputs[0]])]


def discard(nodes: Sequence[ir.Node]) -> None:
    """Let nodes that were made for nothing read nothing: they would count as readers."""
    for node in nodes:
        for i in range(len(node.inputs)):
            node.replace_input_with(i, None)


def name_apart(model: ir.Model) -> None:
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


def is_used(value: ir.Value) -> bool:
    """Whether anything reads a value."""
    return value.is_graph_output() or bool(value.uses())


def drop_unread(value: ir.Value | None) -> None:
    """Take away constants and standard nodes that nothing reads any more, and what only they read."""
    unread = [value]
    while unread:
        value = unread.pop()
        if value is None or is_used(value):
            continue
        producer = value.producer()
        if producer is None:
            if value.is_initializer() and not value.is_graph_input() and value.graph is not None:
                del value.graph.initializers[value.name or ""]
        elif _may_go(producer):
            assert producer.graph is not None
            unread += producer.inputs
            producer.graph.remove(producer, safe=True)


def _may_go(node: ir.Node) -> bool:
    is_plain = node.domain in ("", "ai.onnx") and node.op_type not in _KEPT
    holds_graph = any(
        attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attribute in node.attributes.values()
    )
    return is_plain and not holds_graph and node.graph is not None and not any(map(is_used, node.outputs))

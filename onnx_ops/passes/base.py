"""What the passes have in common: walking a model, sizes by name, new nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np
import onnx_ir as ir

from onnx_ops.errors import DynamicSlice, InvalidSlice
from onnx_ops.hardening import Change, Defect
from onnx_ops.model.inference import all_values, infer_shapes
from onnx_ops.model.nodes import slice_spec, split_spec

Sizes = tuple[int | None, ...]
_SLICE_INPUTS_OPSET = 10
_SPLIT_INPUT_OPSET = 13
_NEW = "sliceport.new"


class NodePass(ir.passes.InPlacePass):
    """A pass that looks at every node of one operator, in subgraphs and functions too.

    Attributes:
        op_type: The operator.
        changes: What was found and done, when it last ran.
    """

    op_type: str

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the pass; `modified` is true exactly when a node was rewritten."""
        self.changes = []
        sizes = sizes_by_name(model)
        for node, opset in list(nodes_of(model, self.op_type)):
            found = self.rewrite(node, opset, sizes)
            if found is not None:
                form, defects = found
                self.changes.append(Change(name_of(node), node.op_type, form, defects))
        _name_apart(model)
        return ir.passes.PassResult(model, modified=any(change.form is not None for change in self.changes))

    @abstractmethod
    def rewrite(
        self, node: ir.Node, opset: int, sizes: Mapping[str, Sizes]
    ) -> tuple[str | None, tuple[Defect, ...]] | None:
        """Rewrite a node if it is one that goes wrong.

        Args:
            node: The node.
            opset: Version of the operator set that it is of.
            sizes: What is known of the shapes of the main graph's and its subgraphs' values.

        Returns:
            What stands in its place, None if nothing helps, and what was wrong; None if nothing was.
        """


def _name_apart(model: ir.Model) -> None:
    """Give new constants names that nothing else in the model has, in graphs around or inside their own either."""
    holders: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    values = [output for holder in holders for node in holder.all_nodes() for output in node.outputs]
    taken = Counter(value.name for value in all_values(model))
    taken.update(name for graph in model.graphs() for name in graph.initializers)
    for value in values:
        if value.meta.pop(_NEW, False) and taken[value.name] > 1:
            taken[value.name] -= 1
            value.name = next(name for i in count() if (name := f"{value.name}_{i}") not in taken)
            taken[value.name] += 1


def nodes_of(model: ir.Model, op_type: str) -> Iterator[tuple[ir.Node, int]]:
    """The nodes of a standard operator with the version of their operator set."""
    version = model.opset_imports.get("", 1)
    holders: list[tuple[ir.Graph | ir.Function, int]] = [(model.graph, version)]
    holders += [(function, function.opset_imports.get("", version)) for function in model.functions.values()]
    for holder, opset in holders:
        for node in holder.all_nodes():
            if node.op_type == op_type and node.domain in ("", "ai.onnx"):
                yield node, opset


def name_of(node: ir.Node) -> str:
    """A node's name, or that of its first output."""
    return node.name or next((output.name for output in node.outputs if output.name), "") or ""


def sizes_by_name(model: ir.Model) -> dict[str, Sizes]:
    """The sizes that can be inferred, None where one is open; the model itself is not changed."""
    probe = ir.serde.deserialize_model(ir.serde.serialize_model(model))
    infer_shapes(probe)
    found: dict[str, Sizes] = {}
    for value in all_values(probe):
        shape = value.shape if value.shape is not None or value.const_value is None else value.const_value.shape
        if value.name and shape is not None:
            found[value.name] = tuple([dim if isinstance(dim, int) else None for dim in shape])
    return found


def constant_node(values: Sequence[int]) -> ir.Node:
    """A Constant node of a list of int64."""
    node = ir.node("Constant", [], {"value": ir.tensor(list(values), dtype=ir.DataType.INT64)})
    node.outputs[0].meta[_NEW] = True
    return node


def empty_node(shape: Sequence[int], dtype: ir.DataType) -> ir.Node:
    """A Constant node of a tensor without elements."""
    return ir.node("Constant", [], {"value": ir.tensor(np.zeros(shape, dtype.numpy()), dtype=dtype)})


def slice_nodes(data: ir.Value, start: int, end: int, axis: int, opset: int) -> list[ir.Node]:
    """A forward Slice of one axis in the spelling of an operator set, with the constants that it reads before it."""
    made = slice_node(data, {axis: (start, end, 1)}, opset)
    assert made is not None
    return made


def slice_node(data: ir.Value, entries: Mapping[int, tuple[int, int, int]], opset: int) -> list[ir.Node] | None:
    """A Slice by start, end and step of each axis, after its constants; None if the operator set lacks its steps."""
    starts, ends, steps = (list(values) for values in zip(*entries.values(), strict=True)) if entries else ([], [], [])
    axes = list(entries)
    if opset < _SLICE_INPUTS_OPSET:
        if any(step != 1 for step in steps):
            return None
        return [ir.node("Slice", [data], {"starts": starts, "ends": ends, "axes": axes})]
    lists = [starts, ends, axes] + ([steps] if any(step != 1 for step in steps) else [])
    constants = [constant_node(values) for values in lists]
    return [*constants, ir.node("Slice", [data, *(node.outputs[0] for node in constants)])]


def written_slice(node: ir.Node, opset: int, shape: Sizes | None) -> dict[int, tuple[int, int, int]] | None:
    """Start, end and step of each axis that a Slice names; None if they are no constants, or wrong.

    Args:
        node: The Slice.
        opset: Version of its operator set.
        shape: What is known of its input's shape: with its rank, negative axes are counted from the front.
    """
    try:
        spec = slice_spec(node, opset)
    except (InvalidSlice, DynamicSlice):
        return None
    axes = spec.axes if spec.axes is not None else tuple(range(len(spec.starts)))
    steps = spec.steps if spec.steps is not None else (1,) * len(spec.starts)
    if not len(axes) == len(steps) == len(spec.starts) == len(spec.ends) or 0 in steps:
        return None
    if shape is not None:
        if not all(-len(shape) <= axis < len(shape) for axis in axes):
            return None
        axes = tuple([axis % len(shape) for axis in axes])
    if min(axes, default=0) < 0 or len(set(axes)) < len(axes):
        return None
    return dict(zip(axes, zip(spec.starts, spec.ends, steps, strict=True), strict=True))


def split_parts(node: ir.Node, opset: int, sizes: Mapping[str, Sizes]) -> tuple[int, tuple[int, ...]] | None:
    """Axis and sizes of the parts, if they are known."""
    data = node.inputs[0] if node.inputs else None
    shape = sizes.get(data.name or "") if data is not None else None
    axis = node.attributes.get_int("axis", 0)
    is_written = "split" in node.attributes or (opset >= _SPLIT_INPUT_OPSET and len(node.inputs) > 1)
    is_sized = shape is not None and -len(shape) <= axis < len(shape) and shape[axis] is not None
    if not is_written and not is_sized:
        return None
    known = tuple([dim or 0 for dim in shape]) if shape is not None else (0,)
    try:
        spec = split_spec(node, opset, known)
    except (InvalidSlice, DynamicSlice):
        return None
    return spec.axis, spec.sizes


def is_used(value: ir.Value) -> bool:
    """Whether anything reads a value."""
    return value.is_graph_output() or bool(value.uses())


def put_in_place(old: ir.Node, new: Sequence[ir.Node], values: Mapping[ir.Value, ir.Value]) -> None:
    """Put nodes in the place of one; values of it get successors with their names, types and shapes."""
    for before, after in values.items():
        after.metadata_props.update(before.metadata_props)
    new[-1].metadata_props.update(old.metadata_props)
    graph = old.graph
    assert graph is not None
    parameters = old.inputs[1:]
    ir.convenience.replace_nodes_and_values(graph, old, [old], new, list(values), list(values.values()))
    for value in parameters:
        if value is not None and not is_used(value):
            _drop(value)


def replace_by(node: ir.Node, value: ir.Value) -> bool:
    """Let a value take the place of a node's only output; whether it can: an output of a graph keeps its node."""
    (output,) = node.outputs
    if output.is_graph_output() or node.graph is None:
        return False
    parameters = node.inputs
    ir.convenience.replace_all_uses_with(output, value)
    node.graph.remove(node, safe=True)
    for parameter in parameters:
        drop_unread(parameter)
    return True


def drop_unread(value: ir.Value | None) -> None:
    """Take away constants, Slices and Identities that nothing reads any more, and what only they read."""
    if value is None or is_used(value):
        return
    producer = value.producer()
    if producer is None or producer.op_type not in ("Slice", "Identity"):
        _drop(value)
    elif producer.graph is not None:
        read = producer.inputs
        producer.graph.remove(producer, safe=True)
        for source in read:
            drop_unread(source)


def _drop(value: ir.Value) -> None:
    """Take away a constant that nothing reads any more."""
    producer = value.producer()
    if producer is not None and producer.op_type == "Constant" and producer.graph is not None:
        producer.graph.remove(producer, safe=True)
    elif value.is_initializer() and not value.is_graph_input() and value.graph is not None:
        del value.graph.initializers[value.name or ""]

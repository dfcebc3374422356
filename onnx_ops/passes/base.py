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
from onnx_ops.slicing.spec import AxisSlice, SplitSpec

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
        self._sizes: dict[ir.Value, Sizes] = {}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the pass; `modified` is true exactly when a node was rewritten."""
        self.changes = []
        self._sizes = known_sizes(model)
        for node, opset in list(nodes_of(model, self.op_type)):
            found = self.rewrite(node, opset)
            if found is not None:
                form, defects = found
                self.changes.append(Change(name_of(node), node.op_type, form, defects))
        self._sizes = {}
        _name_apart(model)
        return ir.passes.PassResult(model, modified=any(change.form is not None for change in self.changes))

    @abstractmethod
    def rewrite(self, node: ir.Node, opset: int) -> tuple[str | None, tuple[Defect, ...]] | None:
        """Rewrite a node if it is one to rewrite.

        Args:
            node: The node.
            opset: Version of the operator set that it is of.

        Returns:
            What stands in its place, None if nothing helps, and what was wrong; None if there is nothing to do.
        """

    def sizes(self, value: ir.Value | None) -> Sizes | None:
        """What is known of a value's shape; nothing of values in functions."""
        return None if value is None else self._sizes.get(value)

    def put_in_place(self, old: ir.Node, new: Sequence[ir.Node], values: Mapping[ir.Value, ir.Value]) -> None:
        """Put nodes in the place of one; values of it get successors with their names, types and shapes."""
        for before, after in values.items():
            after.metadata_props.update(before.metadata_props)
            if before in self._sizes:
                self._sizes[after] = self._sizes[before]
        new[-1].metadata_props.update(old.metadata_props)
        graph = old.graph
        assert graph is not None
        parameters = old.inputs[1:]
        ir.convenience.replace_nodes_and_values(graph, old, [old], new, list(values), list(values.values()))
        for value in parameters:
            drop_unread(value)


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


def known_sizes(model: ir.Model) -> dict[ir.Value, Sizes]:
    """The sizes that can be inferred, None where one is open, of the values of all graphs; the model is not changed.

    By the value and not by its name, which branches and functions may use again.
    """
    probe = ir.serde.deserialize_model(ir.serde.serialize_model(model))
    infer_shapes(probe)
    found: dict[ir.Value, Sizes] = {}
    for graph, twin in zip(model.graphs(), probe.graphs(), strict=True):
        pairs = list(zip(graph.inputs, twin.inputs, strict=True))
        pairs += [(value, twin.initializers[name]) for name, value in graph.initializers.items()]
        for node, other in zip(graph, twin, strict=True):
            pairs += zip(node.outputs, other.outputs, strict=False)  # trailing outputs without a name are not written
        for value, inferred in pairs:
            tensor = inferred.const_value
            shape = inferred.shape if inferred.shape is not None or tensor is None else tensor.shape
            if shape is not None:
                found[value] = tuple([dim if isinstance(dim, int) else None for dim in shape])
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
    made = slice_node(data, {axis: AxisSlice(start, end, 1)}, opset)
    assert made is not None
    return made


def slice_node(data: ir.Value, entries: Mapping[int, AxisSlice], opset: int) -> list[ir.Node] | None:
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


def written_slice(node: ir.Node, opset: int, shape: Sizes | None) -> dict[int, AxisSlice] | None:
    """What a Slice does to each axis that it names; None if that is no constant, or wrong.

    Args:
        node: The Slice.
        opset: Version of its operator set.
        shape: What is known of its input's shape: with its rank, negative axes are counted from the front.
    """
    try:
        return slice_spec(node, opset).by_axis(None if shape is None else len(shape))
    except (InvalidSlice, DynamicSlice):
        return None


def split_parts(node: ir.Node, opset: int, shape: Sizes | None) -> SplitSpec | None:
    """The parts of a Split, if they are known and, as far as its axis is, fill it."""
    axis = node.attributes.get_int("axis", 0)
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    is_written = "split" in node.attributes or (opset >= _SPLIT_INPUT_OPSET and len(node.inputs) > 1)
    if not is_written and size is None:
        return None
    known = tuple([dim or 0 for dim in shape]) if shape is not None else (0,)
    try:
        spec = split_spec(node, opset, known)
    except (InvalidSlice, DynamicSlice):
        return None
    return spec if size is None or sum(spec.sizes) == size else None


def is_used(value: ir.Value) -> bool:
    """Whether anything reads a value."""
    return value.is_graph_output() or bool(value.uses())


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
    if producer is None or producer.domain not in ("", "ai.onnx") or producer.op_type not in ("Slice", "Identity"):
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

"""What the passes have in common: walking a model, sizes by name, new nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_ops.hardening import Change, Defect
from onnx_ops.model.inference import all_values, infer_shapes

Sizes = tuple[int | None, ...]
_SLICE_INPUTS_OPSET = 10


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
    return ir.node("Constant", [], {"value": ir.tensor(list(values), dtype=ir.DataType.INT64)})


def empty_node(shape: Sequence[int], dtype: ir.DataType) -> ir.Node:
    """A Constant node of a tensor without elements."""
    return ir.node("Constant", [], {"value": ir.tensor(np.zeros(shape, dtype.numpy()), dtype=dtype)})


def slice_nodes(data: ir.Value, start: int, end: int, axis: int, opset: int) -> list[ir.Node]:
    """A forward Slice of one axis in the spelling of an operator set, with the constants that it reads before it."""
    if opset < _SLICE_INPUTS_OPSET:
        return [ir.node("Slice", [data], {"starts": [start], "ends": [end], "axes": [axis]})]
    constants = [constant_node([value]) for value in (start, end, axis)]
    return [*constants, ir.node("Slice", [data, *(node.outputs[0] for node in constants)])]


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


def _drop(value: ir.Value) -> None:
    """Take away a constant that nothing reads any more."""
    producer = value.producer()
    if producer is not None and producer.op_type == "Constant" and producer.graph is not None:
        producer.graph.remove(producer, safe=True)
    elif value.is_initializer() and not value.is_graph_input() and value.graph is not None:
        del value.graph.initializers[value.name or ""]

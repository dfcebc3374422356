"""Inferred sizes, types and elements of values, by value, because several branches may use the same name."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ops.defects.conditions import check_node
from onnx_ops.infer.facts import NO_FACTS, Facts
from onnx_ops.infer.inference import infer, infer_shapes
from onnx_ops.infer.resolve import fold_nodes
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.io import detach_weights, view_of
from onnx_ops.model.nodes import CONTESTED, is_slicing, node_name
from onnx_ops.model.proto_model import Node, ProtoModel, Value
from onnx_ops.model.views import Array, Dims, Sizes, dims_of, sizes_of_shape
from onnx_ops.model.walk import all_nodes, all_values, graphs_in, model_graphs, nodes_with_opsets
from onnx_ops.passes.contested_nodes import build_probe, clone_model, mark_contested, unmark
from sliceport.errors import DynamicSlice, InvalidSlice, ModelError
from sliceport.hardening import InvalidNode

logger = logging.getLogger(__name__)

_NUMBER = "sliceport.number"
"""Key in the metadata of a node for its position in the model."""
_Copies = Sequence[tuple[ir.Node, Node]]
"""Pairs of a node and its copy in a view. A node in a function has a copy for each call."""


@dataclass
class ValueInfo:
    """Facts about values and slicing nodes, as far as they are known.

    Attributes:
        sizes: For each value of known rank, the size of each axis, None for an open one.
        dims: For each value of known rank, a tuple for each axis: the size of the axis in each copy of the value (see
            `record`), as a number, a symbol, or None.
        types: The types.
        constants: The facts about each value whose inferred elements are the same for all inputs of the model.
        invalid: For each invalid slicing node, the rule that it breaks and the value that breaks the rule.
        misdeclared: The values that the model declares with a number for a size that its inputs leave open.
        resized: The inputs of the bodies of Loops whose sizes the first iteration changes.
    """

    sizes: dict[ir.Value, Sizes] = field(default_factory=dict)
    dims: dict[ir.Value, Sequence[Dims]] = field(default_factory=dict)
    types: dict[ir.Value, ir.TypeProtocol] = field(default_factory=dict)
    constants: dict[ir.Value, Facts] = field(default_factory=dict)
    invalid: dict[ir.Node, str] = field(default_factory=dict)
    misdeclared: set[ir.Value] = field(default_factory=set)
    resized: set[ir.Value] = field(default_factory=set)

    def list_invalid(self) -> list[InvalidNode]:
        """Return the nodes that break their specification, each with the reason."""
        return [InvalidNode(node_name(node), node.op_type, reason) for node, reason in self.invalid.items()]

    def copy_entry(self, value: ir.Value, source: ir.Value) -> None:
        """Copy the recorded sizes, dims and type of `source` to `value`."""
        entries: list[dict[ir.Value, Any]] = [self.sizes, self.dims, self.types]
        for entry in entries:
            if source in entry:
                entry[value] = entry[source]

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a tensor. Return None if it is unknown, or the value is not a tensor."""
        type_ = self.types.get(value)
        return type_.dtype if isinstance(type_, ir.TensorType) and type_.dtype != ir.DataType.UNDEFINED else None

    def elements(self, value: ir.Value) -> Array | None:
        """Return the inferred elements of a value. Return None unless they are the same for all inputs of the model."""
        return self.constants.get(value, NO_FACTS).data

    def record(self, value: ir.Value, copies: Sequence[Value | None], facts: Sequence[Facts]) -> None:
        """Record the type, sizes and elements that all copies of a value have in common.

        Inference inlines functions, so a value in a function has a copy for each call. A copy is None for an input that
        the call leaves out. `facts` holds the facts about each copy. The value is misdeclared or resized if one of its
        copies is.
        """
        element = _common([None if copy is None else copy.element for copy in copies])
        if value.type is not None and not isinstance(value.type, ir.TensorType):
            self.types[value] = value.type
        elif element is not None:
            self.types[value] = ir.TensorType(ir.DataType(element))
        dims = [dims for copy in copies if copy is not None and (dims := dims_of(copy.shape)) is not None]
        if len(dims) == len(copies) and len(set(map(len, dims))) == 1:
            self.dims[value] = list(zip(*dims, strict=True))
            sizes = map(_common, self.dims[value])
            self.sizes[value] = tuple([size if isinstance(size, int) else None for size in sizes])
        if any(each.is_misdeclared for each in facts):
            self.misdeclared.add(value)
        if any(each.is_resized for each in facts):
            self.resized.add(value)
        first = facts[0]
        if first.data is not None and all(_has_elements(other, first.element, first.data) for other in facts[1:]):
            self.constants[value] = first


def _common(items: Sequence[Any]) -> Any:
    """Return the first of `items` if all are equal, else None."""
    return items[0] if len(set(items)) == 1 else None


def _has_elements(facts: Facts, element: int, data: Array) -> bool:
    """Return whether the inferred elements of a value are these."""
    return facts.data is not None and facts.element == element and np.array_equal(facts.data, data)


def infer_value_info(model: ir.Model, *, folding: bool = False) -> ValueInfo:
    """Infer sizes, types and elements in all graphs and functions. Mark the nodes that engines read differently.

    Facts about a value in a function hold at all calls of the function. If a function cannot be inlined, nothing is
    known about the values in functions.

    Args:
        model: The model. Only the marks change.
        folding: Whether to fold constants, too. This takes longer, but also finds shapes that nodes compute.

    Raises:
        ModelError: The model is not well-formed; see `clone_model`.
    """
    unmark(model, [CONTESTED])
    while True:  # nothing is inferred from marked nodes, so inference is repeated until it marks no more nodes
        value_info = _infer_probe(model, *_view_probe(model), folding=folding)
        if value_info is not None:
            return value_info


def infer_facts(model: ir.Model) -> dict[ir.Value, Facts]:
    """Return the facts about the values of a model without functions; see `infer`."""
    view = view_of(clone_model(model))
    facts = infer(view)
    values = (value for value in all_values(model.graph) if not _is_unwritten(value))
    return {value: facts[copy] for value, copy in zip(values, all_values(view.graph), strict=True) if copy in facts}


def _is_unwritten(value: ir.Value) -> bool:
    """Return whether onnx-ir omits a value because the value and all later outputs of its node have no names."""
    producer = None if value.name else value.producer()
    return producer is not None and not any(output.name for output in producer.outputs[value.index() :])


def _view_probe(model: ir.Model) -> tuple[ProtoModel, _Copies]:
    """Return a view of a probe of a model, and the copies of the model's nodes in it; see `build_probe`."""
    probe = build_probe(model)
    detach_weights(probe)
    nodes = [node for node, _ in nodes_with_opsets(model)]
    for number, (copy, _) in enumerate(nodes_with_opsets(probe)):
        copy.metadata_props[_NUMBER] = str(number)
    try:
        view = view_of(probe)
    except ModelError as error:
        logger.debug("functions are not inlined: %s", error)
        view = view_of(probe, inlines=False)
    marks = ((copy, copy.read_mark(_NUMBER)) for copy in all_nodes(view.graph))
    return view, [(nodes[int(mark)], copy) for copy, mark in marks if mark]


def _infer_probe(model: ir.Model, view: ProtoModel, copies: _Copies, *, folding: bool) -> ValueInfo | None:
    """Infer the value info of `model` from a view of its probe. If `folding`, fold constants in the view, too.

    If engines disagree on a node that is not marked yet, mark it in `model` and return None.
    """
    opset = standard_opset(model.opset_imports)
    copies_by_value = _pair_values(model, view, copies)
    facts = infer_shapes(view)
    slicing = [(node, copy) for node, copy in copies if is_slicing(copy)]
    for _, copy in slicing:
        _set_constants(copy, facts)
    if _mark_contested(slicing, opset):
        return None
    if folding:
        fold_nodes(view, list(all_nodes(view.graph)), [copy for _, copy in slicing], facts)
        # Nodes that became constants have no graph.
        slicing = [(node, copy) for node, copy in slicing if copy.graph is not None]
        if _mark_contested(slicing, opset):  # folding has made more sizes known
            return None
    value_info = ValueInfo(invalid=_find_invalid(slicing, opset))
    for value, value_copies in copies_by_value.items():
        copied_facts = [NO_FACTS if copy is None else facts.get(copy, NO_FACTS) for copy in value_copies]
        value_info.record(value, value_copies, copied_facts)
    # An initializer has no copy if no node reads it, and may have no declared type. Its tensor has a type and a shape.
    for graph in model_graphs(model):
        for value in graph.initializers.data.values():
            if value.const_value is not None:
                value_info.types[value] = ir.TensorType(value.const_value.dtype)
                value_info.sizes[value] = sizes_of_shape(value.const_value.shape)
    return value_info


def _mark_contested(pairs: _Copies, opset: int) -> bool:
    """Mark the first node of each pair if engines disagree about the second, its copy. Return whether a mark is new."""
    marked = [node for node, copy in pairs if mark_contested(node, copy, opset)]  # `any` would stop at the first one
    return bool(marked)


def _pair_values(model: ir.Model, view: ProtoModel, copies: _Copies) -> dict[ir.Value, list[Value | None]]:
    """Return the copies in `view` of each value of `model`. A copy is None for an input that a call leaves out."""
    values: dict[ir.Value, list[Value | None]] = defaultdict(list)
    for value, copy in zip(model.graph.inputs, view.graph.inputs, strict=False):
        values[value].append(copy)
    for node, node_copy in copies:
        for value, copy in zip(node.outputs, node_copy.outputs, strict=False):  # left-out outputs may be unwritten
            values[value].append(copy)
        for graph, graph_copy in zip(graphs_in(node), graphs_in(node_copy), strict=True):
            for value, copy in zip(graph.inputs, graph_copy.inputs, strict=True):
                values[value].append(copy)
    # All other values: initializers, inputs of functions, and results of calls that are inlined.
    others: dict[ir.Value, list[Value | None]] = defaultdict(list)
    for value, copy in zip(model.graph.outputs, view.graph.outputs, strict=True):
        others[value].append(copy)
    for node, node_copy in copies:
        for index, source in enumerate(node.inputs):
            if source is not None:
                others[source].append(node_copy.inputs[index] if index < len(node_copy.inputs) else None)
    return others | values  # a value in both keeps its entry in `values`


def _set_constants(copy: Node, facts: Mapping[Value, Facts]) -> None:
    """Turn the known parameters of a slicing node into constants, so that the node can be read and checked."""
    for value in copy.inputs[1:]:
        if value is not None and value.const_value is None:
            inferred = facts.get(value, NO_FACTS)
            if inferred.data is not None:
                value.set_constant(inferred.element, inferred.data)


def _find_invalid(slicing: _Copies, opset: int) -> dict[ir.Node, str]:
    """Return the nodes whose copies break the specification, each with the message of the error."""
    invalid: dict[ir.Node, str] = {}
    for node, copy in slicing:
        try:
            check_node(copy, opset)
        except InvalidSlice as error:
            invalid[node] = str(error)
        except DynamicSlice:  # parameters that are not known cannot be checked
            pass
    return invalid

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
from onnx_ops.infer.inference import infer_shapes
from onnx_ops.infer.resolve import fold_nodes
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.ir_model import IrModel
from onnx_ops.model.nodes import CONTESTED, is_slicing, node_name
from onnx_ops.model.views import Array, Dims, Sizes, dims_of, sizes_of_shape
from onnx_ops.model.walk import all_nodes, graphs_in, model_graphs
from onnx_ops.passes.contested_nodes import build_probe, mark_contested, unmark
from sliceport.errors import DynamicSlice, InvalidSlice, ModelError
from sliceport.hardening import InvalidNode

logger = logging.getLogger(__name__)


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

    def record(self, value: ir.Value, copies: Sequence[ir.Value | None], facts: Sequence[Facts]) -> None:
        """Record the type, sizes and elements that all copies of a value have in common.

        Inference inlines functions, so a value in a function has a copy for each call. A copy is None for an input that
        the call leaves out. `facts` holds the facts about each copy. The value is misdeclared or resized if one of its
        copies is.
        """
        type_ = _common([None if copy is None else copy.type for copy in copies])
        if type_ is not None:
            self.types[value] = type_
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
        try:
            probe, copies = build_probe(model)
        except ModelError as error:
            logger.debug("functions are not inlined: %s", error)
            probe, copies = build_probe(model, inlined=False)
        value_info = _infer_probe(model, probe, copies, folding=folding)
        if value_info is not None:
            return value_info


def _infer_probe(
    model: ir.Model, probe: ir.Model, copies: Sequence[tuple[ir.Node, ir.Node]], *, folding: bool
) -> ValueInfo | None:
    """Infer the value info of `model` from its copy `probe`. If `folding`, fold constants in the probe, too.

    If engines disagree on a node that is not marked yet, mark it in `model` and return None. `copies` are pairs of a
    node of the model and its copy in the probe.
    """
    opset = standard_opset(model.opset_imports)
    copies_by_value = _pair_values(model, probe, copies)
    view = IrModel(probe)
    facts = infer_shapes(view)
    slicing = [(node, copy) for node, copy in copies if is_slicing(copy)]
    for _, copy in slicing:
        _set_constants(copy, facts)
    if _mark_contested(slicing, opset):
        return None
    if folding:
        fold_nodes(view, list(all_nodes(probe.graph)), [copy for _, copy in slicing], facts)
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


def _mark_contested(pairs: Sequence[tuple[ir.Node, ir.Node]], opset: int) -> bool:
    """Mark the first node of each pair if engines disagree about the second, its copy. Return whether a mark is new."""
    marked = [node for node, copy in pairs if mark_contested(node, copy, opset)]  # `any` would stop at the first one
    return bool(marked)


def _pair_values(
    model: ir.Model, probe: ir.Model, copies: Sequence[tuple[ir.Node, ir.Node]]
) -> dict[ir.Value, list[ir.Value | None]]:
    """Return the copies in `probe` of each value of `model`. A copy is None for an input that a call leaves out."""
    values: dict[ir.Value, list[ir.Value | None]] = defaultdict(list)
    for value, copy in zip(model.graph.inputs, probe.graph.inputs, strict=True):
        values[value].append(copy)
    for node, node_copy in copies:
        for value, copy in zip(node.outputs, node_copy.outputs, strict=True):
            values[value].append(copy)
        for graph, graph_copy in zip(graphs_in(node), graphs_in(node_copy), strict=True):
            for value, copy in zip(graph.inputs, graph_copy.inputs, strict=True):
                values[value].append(copy)
    # All other values: initializers, inputs of functions, and results of calls that are inlined.
    others: dict[ir.Value, list[ir.Value | None]] = defaultdict(list)
    for value, copy in zip(model.graph.outputs, probe.graph.outputs, strict=True):
        others[value].append(copy)
    for node, node_copy in copies:
        for index, source in enumerate(node.inputs):
            if source is not None:
                others[source].append(node_copy.inputs[index] if index < len(node_copy.inputs) else None)
    return others | values  # a value in both keeps its entry in `values`


def _set_constants(copy: ir.Node, facts: Mapping[ir.Value, Facts]) -> None:
    """Turn the known parameters of a slicing node into constants, so that the node can be read and checked."""
    for value in copy.inputs[1:]:
        if value is not None and value.const_value is None:
            inferred = facts.get(value, NO_FACTS)
            if inferred.data is not None:
                value.const_value = ir.Tensor(inferred.data, dtype=ir.DataType(inferred.element))


def _find_invalid(slicing: Sequence[tuple[ir.Node, ir.Node]], opset: int) -> dict[ir.Node, str]:
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

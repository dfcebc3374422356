"""Inferred sizes and types of values, by the value and not by its name, which branches may use again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.infer.facts import Facts
from onnx_ops.infer.inference import infer_shapes
from onnx_ops.infer.propagate import MAX_CALLS
from onnx_ops.infer.resolve import fold_nodes
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN, standard_opset
from onnx_ops.model.ir_model import IrModel
from onnx_ops.model.nodes import SLICING, contested, is_standard, node_name
from onnx_ops.model.walk import all_graphs, all_nodes
from onnx_ops.passes.contested_nodes import build_probe, mark_by_sizes, mark_computed, unmark
from onnx_ops.passes.invalid_nodes import find_invalid
from sliceport.hardening import InvalidNode

Sizes = tuple[int | None, ...]


@dataclass
class ValueInfo:
    """Sizes and types of values, as far as they are known.

    Attributes:
        sizes: The size of each axis, None where it is open; of values whose rank is known.
        types: The types.
        constants: Facts about the values of nodes that are the same for all inputs of the model.
        invalid: The rule that each invalid slicing node breaks.
    """

    sizes: dict[ir.Value, Sizes] = field(default_factory=dict)
    types: dict[ir.Value, ir.TypeProtocol] = field(default_factory=dict)
    constants: dict[ir.Value, Facts] = field(default_factory=dict)
    invalid: dict[ir.Node, str] = field(default_factory=dict)

    def list_invalid(self) -> list[InvalidNode]:
        """Return the nodes that break their specification, each with the reason."""
        return [InvalidNode(node_name(node), node.op_type, reason) for node, reason in self.invalid.items()]

    def copy_entry(self, value: ir.Value, source: ir.Value) -> None:
        """Copy the recorded size and type of `source` to `value`, which replaces it."""
        self.copy_from(self, value, source)

    def copy_from(self, other: ValueInfo, value: ir.Value, source: ir.Value) -> None:
        """Copy the size and type of `source` in `other` to `value` here. Constants of another graph do not apply."""
        if source in other.sizes:
            self.sizes[value] = other.sizes[source]
        if source in other.types:
            self.types[value] = other.types[source]

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the type of a tensor's elements, if it is known."""
        type_ = self.types.get(value)
        return type_.dtype if isinstance(type_, ir.TensorType) and type_.dtype != ir.DataType.UNDEFINED else None

    def record(self, value: ir.Value, type_: ir.TypeProtocol | None, shape: ir.ShapeProtocol | None) -> None:
        """Record what was inferred of a value."""
        if shape is not None:
            self.sizes[value] = tuple([dim if isinstance(dim, int) else None for dim in shape])
        if type_ is not None:
            self.types[value] = type_


def infer_value_info(model: ir.Model, *, folding: bool = False) -> ValueInfo:
    """Infer sizes and types in all graphs and functions; the model is not changed.

    Of a value in a function they are those that hold at all its calls.

    Args:
        model: The model.
        folding: Whether to fold constants too, which takes longer and gives shapes that are computed.
    """
    unmark(model)
    mark_computed(model)
    while True:
        found = _infer_graphs(model, folding=folding)
        for function, body in walk_functions(model, found):
            inferred = _infer_graphs(body, folding=folding)
            for value, twin in pair_values(function, body.graph):
                found.copy_from(inferred, value, twin)
                if twin in inferred.constants:
                    found.constants[value] = inferred.constants[twin]
            twins = zip(all_nodes(function), all_nodes(body.graph), strict=True)
            found.invalid.update({node: inferred.invalid[twin] for node, twin in twins if twin in inferred.invalid})
        if not mark_by_sizes(model, found.sizes):
            return found


def walk_functions(model: ir.Model, value_info: ValueInfo) -> Iterator[tuple[ir.Function, ir.Model]]:
    """Yield each function as a model of its own, whose inputs have the sizes that hold at all calls.

    A function comes after those that call it, so that what was inferred in these can be put into `value_info` between.
    Functions that call each other are left out.
    """
    waiting = [function for function in model.functions.values() if function.domain != STRIDED_SLICE_DOMAIN]
    if not waiting:
        return
    calls: _Calls = defaultdict(list)
    _add_calls(calls, model.graph, model)
    disputed = _find_contested(model)
    called_by = {function.identifier(): _called_functions(function, model) for function in waiting}
    rounds = _sort_by_callers(waiting, called_by)
    for ready in rounds:
        for function in ready:
            reached = _reached_functions(function, model, called_by)
            reached += [each for each in disputed if each is not function and each not in reached]
            yield function, _as_model(model, function, reached, calls[function.identifier()], value_info)
        for function in ready:
            _add_calls(calls, function, model)


def _sort_by_callers(
    functions: Sequence[ir.Function], called_by: Mapping[ir.OperatorIdentifier, set[ir.OperatorIdentifier]]
) -> list[list[ir.Function]]:
    """Return the functions in rounds, each as soon as all that call it are in earlier ones, else in their order."""
    numbers = {function.identifier(): i for i, function in enumerate(functions)}
    callers = Counter(each for key in numbers for each in called_by[key])
    ready = [i for key, i in numbers.items() if not callers[key]]
    rounds = []
    while ready:
        rounds.append([functions[i] for i in ready])
        following = []
        for function in rounds[-1]:
            for key in called_by[function.identifier()] & numbers.keys():
                callers[key] -= 1
                if not callers[key]:
                    following.append(numbers[key])
        ready = sorted(following)
    return rounds


_Calls = dict[ir.OperatorIdentifier, list[ir.Node]]
"""By function, the nodes that call it."""


def _add_calls(calls: _Calls, holder: ir.Graph | ir.Function, model: ir.Model) -> None:
    for node in all_nodes(holder):
        key = node.op_identifier()
        if key in model.functions:
            calls[key].append(node)


def _called_functions(function: ir.Function, model: ir.Model) -> set[ir.OperatorIdentifier]:
    return {key for node in all_nodes(function) if (key := node.op_identifier()) in model.functions}


def _reached_functions(
    function: ir.Function, model: ir.Model, called_by: Mapping[ir.OperatorIdentifier, set[ir.OperatorIdentifier]]
) -> list[ir.Function]:
    """Return the functions reachable from `function` within MAX_CALLS + 1 call levels, without itself."""
    reached: set[ir.OperatorIdentifier] = set()
    unseen = called_by[function.identifier()]
    for _ in range(MAX_CALLS + 1):
        reached |= unseen
        unseen = {key for each in unseen for key in called_by.get(each, ())} - reached
    return [model.functions[key] for key in sorted(reached - {function.identifier()})]


def _find_contested(model: ir.Model) -> list[ir.Function]:
    """Return at most one function with a contested node, because one is enough for `build_probe` to clear shapes."""
    for function in model.functions.values():
        opset = standard_opset(function.opset_imports, standard_opset(model.opset_imports))
        if any(contested(node, opset) is not None for node in all_nodes(function)):
            return [function]
    return []


def _as_model(
    model: ir.Model,
    function: ir.Function,
    reached: Sequence[ir.Function],
    calls: Sequence[ir.Node],
    value_info: ValueInfo,
) -> ir.Model:
    graph = function.clone().graph
    for i, value in enumerate(graph.inputs):
        given = [node.inputs[i] if i < len(node.inputs) else None for node in calls]
        sizes = [value_info.sizes.get(each) if each is not None else None for each in given]
        types = {value_info.types.get(each) if each is not None else None for each in given}
        if len(types) == 1:
            (value.type,) = types
        first = sizes[0] if sizes else None
        if first is not None and all(each is not None and len(each) == len(first) for each in sizes):
            columns = zip(*[each for each in sizes if each is not None], strict=True)
            value.shape = ir.Shape([column[0] if len(set(column)) == 1 else None for column in columns])
    graph.opset_imports.update(function.opset_imports)
    others = [each.clone() for each in reached]
    return ir.Model(graph, ir_version=model.ir_version, functions=others)


def pair_values(function: ir.Function, graph: ir.Graph) -> list[tuple[ir.Value, ir.Value]]:
    """Return the values of a function, each with the same one of its copy."""
    values = list(zip(function.inputs, graph.inputs, strict=True))
    for node, twin in zip(all_nodes(function), all_nodes(graph), strict=True):
        values += zip(node.outputs, twin.outputs, strict=True)
    return values


def _infer_graphs(model: ir.Model, *, folding: bool) -> ValueInfo:
    probe = build_probe(model)
    graphs = list(zip(all_graphs(model), all_graphs(probe), strict=True))
    nodes = [pair for graph, twin in graphs for pair in zip(graph, twin, strict=True)]
    values = [pair for graph, twin in graphs for pair in zip(graph.inputs, twin.inputs, strict=True)]
    view = IrModel(probe)
    facts = infer_shapes(view)
    written = [pair for node, twin in nodes for pair in zip(node.outputs, twin.outputs, strict=True)]
    constants = {value: known for value, twin in written if (known := facts.get(twin)) and known.data is not None}
    if folding:
        slicing = [twin for _, twin in nodes if is_standard(twin, *SLICING)]
        fold_nodes(view, list(all_nodes(probe.graph)), slicing, facts)
    values += [pair for node, twin in nodes for pair in zip(node.outputs, twin.outputs, strict=True)]
    found = ValueInfo(constants=constants, invalid=find_invalid(nodes, facts, standard_opset(model.opset_imports)))
    for value, twin in values:
        found.record(value, twin.type, twin.shape)
    for graph, _ in graphs:
        for value in graph.initializers.data.values():
            tensor = value.const_value
            if tensor is not None:
                found.record(value, ir.TensorType(tensor.dtype), tensor.shape)
    return found

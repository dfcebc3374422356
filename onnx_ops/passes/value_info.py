"""What is known of values: sizes and types, by the value and not by its name, which branches may use again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.inference import infer_shapes
from onnx_ops.nodes import (
    MARK,
    SLICING,
    contested,
    has_open_attribute,
    is_standard,
    read_elements,
    slice_spec,
)
from onnx_ops.resolve_shapes import detach_large_initializers, fold, inline_functions, name_left_out_outputs
from sliceport.errors import DynamicSlice, InvalidSlice, ModelError

Sizes = tuple[int | None, ...]
_ASIDE = "sliceport.aside"
_NUMBER = "sliceport.number"
_BOUNDS = 5
_MOST_STEPS = 64


@dataclass
class Knowledge:
    """What is known of values.

    Attributes:
        sizes: The size of each axis, None where it is open; of values whose rank is known.
        types: The types.
    """

    sizes: dict[ir.Value, Sizes] = field(default_factory=dict)
    types: dict[ir.Value, ir.TypeProtocol] = field(default_factory=dict)

    def inherit(self, after: ir.Value, before: ir.Value) -> None:
        """What holds for one value holds for another that takes its place."""
        self.inherit_from(self, after, before)

    def inherit_from(self, other: Knowledge, value: ir.Value, twin: ir.Value) -> None:
        """What is known elsewhere of a value's twin holds for it."""
        if twin in other.sizes:
            self.sizes[value] = other.sizes[twin]
        if twin in other.types:
            self.types[value] = other.types[twin]

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """The type of a tensor's elements."""
        known = self.types.get(value)
        return known.dtype if isinstance(known, ir.TensorType) else None

    def learn(self, value: ir.Value, type_: ir.TypeProtocol | None, shape: ir.ShapeProtocol | None) -> None:
        """Take down what was inferred of a value."""
        if shape is not None:
            self.sizes[value] = tuple([dim if isinstance(dim, int) else None for dim in shape])
        if type_ is not None:
            self.types[value] = type_


def infer(model: ir.Model, *, folding: bool = False) -> Knowledge:
    """What can be inferred of the values of all graphs and functions; the model is not changed.

    Of a function it is what holds at all places where it is called.

    Args:
        model: The model.
        folding: Whether to fold constants too, so that shapes that are computed are known; it takes longer.
    """
    unmark(model)
    _mark_computed(model)
    while True:
        found = _infer_graphs(model, folding=folding)
        for function, body in bodies(model, found):
            inferred = _infer_graphs(body, folding=folding)
            for value, twin in paired(function, body.graph):
                found.inherit_from(inferred, value, twin)
        if not _mark_by_sizes(model, found):
            return found


def bodies(model: ir.Model, known: Knowledge) -> Iterator[tuple[ir.Function, ir.Model]]:
    """The functions, each as a model of its own whose inputs have the sizes that they have at all places of call.

    Those that are called come after their callers, so that what was found out of these may be put into `known` between.
    """
    waiting = [function for function in model.functions.values() if function.domain != STRIDED_SLICE_DOMAIN]
    callers: list[ir.Graph | ir.Function] = [model.graph]
    while waiting:
        called = {call.op_identifier() for function in waiting for call in function.all_nodes()}
        ready = [function for function in waiting if function.identifier() not in called]
        if not ready:
            return  # they call each other
        for function in ready:
            calls = [node for caller in callers for node in caller.all_nodes() if _calls(node, function)]
            yield function, _as_model(model, function, calls, known)
        callers += ready
        waiting = [function for function in waiting if function not in ready]


def _calls(node: ir.Node, function: ir.Function) -> bool:
    return node.op_identifier() == function.identifier()


def _as_model(model: ir.Model, function: ir.Function, calls: Sequence[ir.Node], known: Knowledge) -> ir.Model:
    graph = function.clone().graph
    for i, value in enumerate(graph.inputs):
        given = [node.inputs[i] if i < len(node.inputs) else None for node in calls]
        sizes = [known.sizes.get(each) if each is not None else None for each in given]
        types = {known.types.get(each) if each is not None else None for each in given}
        if len(types) == 1:
            (value.type,) = types
        first = sizes[0] if sizes else None
        if first is not None and all(each is not None and len(each) == len(first) for each in sizes):
            columns = zip(*[each for each in sizes if each is not None], strict=True)
            value.shape = ir.Shape([column[0] if len(set(column)) == 1 else None for column in columns])
    graph.opset_imports.update(function.opset_imports)
    others = [each.clone() for each in model.functions.values() if each is not function]
    return ir.Model(graph, ir_version=model.ir_version, functions=others)


def paired(function: ir.Function, graph: ir.Graph) -> list[tuple[ir.Value, ir.Value]]:
    """The values of a function and those of its twin."""
    values = list(zip(function.inputs, graph.inputs, strict=True))
    for node, twin in zip(function.all_nodes(), graph.all_nodes(), strict=True):
        values += zip(node.outputs, twin.outputs, strict=True)
    return values


def probe_of(model: ir.Model) -> ir.Model:
    """A copy to infer and fold in.

    Nothing follows in it from nodes that engines read differently, nor from those whose attributes a call sets.
    """
    _mark_written(model)
    probe = _clone(model)
    marked = [node for node, _ in every_node(probe) if MARK in node.meta]
    if marked:  # what the file says of sizes may follow from them
        for node, _ in every_node(probe):
            for output in node.outputs:
                output.shape = None
        for graph in probe.graphs():
            for value in () if graph is probe.graph else graph.inputs:
                value.shape = None
    for node in [*marked, *filter(has_open_attribute, probe.graph.all_nodes())]:
        node.domain = _ASIDE
    for imports in (probe.opset_imports, *(function.opset_imports for function in probe.functions.values())):
        imports[_ASIDE] = 1
    return probe


def _clone(model: ir.Model) -> ir.Model:
    """A copy.

    Raises:
        ModelError: The model is not whole: a node reads a value that is nowhere.
    """
    try:
        return model.clone()
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise ModelError(f"the model is not well-formed: nothing defines {cause}.") from error


def unmark(model: ir.Model) -> None:
    """Forget which nodes engines read differently."""
    for node, _ in every_node(model):
        node.meta.pop(MARK, None)


def _mark_written(model: ir.Model) -> None:
    """Mark the nodes about which engines disagree by what is written in them."""
    for node, opset in every_node(model):
        disagreement = contested(node, opset)
        if disagreement is not None:
            node.meta[MARK] = disagreement


def _mark_by_sizes(model: ir.Model, found: Knowledge) -> bool:
    """Mark those about which engines disagree by the sizes that were found; whether there were any."""
    changed = False
    for node, opset in every_node(model):
        data = node.inputs[0] if node.inputs else None
        sizes = None if data is None else found.sizes.get(data)
        disagreement = None if sizes is None or MARK in node.meta else contested(node, opset, sizes)
        if disagreement is not None:
            node.meta[MARK] = disagreement
            changed = True
    return changed


def _mark_computed(model: ir.Model) -> None:
    """Mark those about which engines disagree by what is computed from constants, in functions at some call."""
    doubtful = [node for node, opset in every_node(model) if _is_doubtful(node, opset)]
    while [node for node in doubtful if MARK not in node.meta]:
        for i, node in enumerate(doubtful):
            node.meta[_NUMBER] = i
        probe = probe_of(model)
        for node in doubtful:
            del node.meta[_NUMBER]
        try:
            inline_functions(probe)
        except ModelError:
            return
        detach_large_initializers(probe)
        for value, facts in infer_shapes(probe).items():
            if facts.data is not None and value.const_value is None:
                value.const_value = ir.tensor(facts.data)
        version = model.opset_imports.get("", 1)
        turned_out = [
            (node, disagreement)
            for node in probe.graph.all_nodes()
            if _NUMBER in node.meta and (disagreement := contested(node, version)) is not None
        ]
        for node, disagreement in turned_out:
            doubtful[node.meta[_NUMBER]].meta[MARK] = disagreement
        if not turned_out:
            return


def _is_doubtful(node: ir.Node, opset: int) -> bool:
    """Whether what is written in a Slice is not known, and engines might disagree about it."""
    steps = node.inputs[_BOUNDS - 1] if is_standard(node, "Slice") and len(node.inputs) == _BOUNDS else None
    if steps is None:
        return False
    try:
        slice_spec(node, opset)
    except DynamicSlice:
        return not _are_ones(steps)
    except InvalidSlice:
        pass
    return False


def _are_ones(value: ir.Value) -> bool:
    steps = read_elements(value, _MOST_STEPS)
    return steps is not None and bool((steps == 1).all())


def every_node(model: ir.Model) -> Iterator[tuple[ir.Node, int]]:
    """The nodes of graphs, subgraphs and functions with the version of the standard operator set where they are."""
    version = model.opset_imports.get("", 1)
    for node in model.graph.all_nodes():
        yield node, version
    for function in model.functions.values():
        for node in function.all_nodes():
            yield node, function.opset_imports.get("", version)


def _infer_graphs(model: ir.Model, *, folding: bool) -> Knowledge:
    probe = probe_of(model)
    graphs = list(zip(model.graphs(), probe.graphs(), strict=True))
    nodes = [pair for graph, twin in graphs for pair in zip(graph, twin, strict=True)]
    values = [pair for graph, twin in graphs for pair in zip(graph.inputs, twin.inputs, strict=True)]
    name_left_out_outputs(probe)
    detach_large_initializers(probe)
    if folding:
        fold(probe, [twin for _, twin in nodes if is_standard(twin, *SLICING)])
    else:
        infer_shapes(probe)
    values += [pair for node, twin in nodes for pair in zip(node.outputs, twin.outputs, strict=True)]
    found = Knowledge()
    for value, twin in values:
        found.learn(value, twin.type, twin.shape)
    for graph, _ in graphs:
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None:
                found.learn(value, ir.TensorType(tensor.dtype), tensor.shape)
    return found

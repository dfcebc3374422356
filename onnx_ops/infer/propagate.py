"""Propagation of types, shapes and constants through a model, node by node.

Slicing and shape arithmetic follow `rules` and `shape_arithmetic`, which take open sizes among known ones. onnx infers
the other shapes, one node at a time, and its reference operators compute the other constants. onnx's inference of whole
models is not used: its data propagation multiplies tensors without bound, and declared shapes overrule it.

This module works on protobuf messages. It does not import onnx-ir, which takes longer to load than most models take to
infer.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_ops.infer import shape_arithmetic
from onnx_ops.infer.corrections import correct_first_output, normalize_axes
from onnx_ops.infer.exact import evaluate
from onnx_ops.infer.facts import (
    INTEGER_LIMITS,
    MAX_BYTES,
    MAX_RANK,
    NO_FACTS,
    Facts,
    matches_facts,
    read_tensor,
    read_type,
)
from onnx_ops.infer.rules import apply_own_rule
from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.domains import STANDARD_DOMAINS, STRIDED_SLICE_DOMAIN, usual_name
from onnx_ops.model.nodes import LARGE_BYTES, is_slicing
from onnx_ops.model.proto_walk import graphs_of
from onnx_ops.model.views import Dims
from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX

# Limits of all facts of a model together; values beyond them keep their types only.
_TOTAL_BYTES = 2**27
_TOTAL_DIMS = 2**22
# onnx's inference reads the elements of inputs such as shapes and axes, which are short.
_MAX_INPUT_ELEMENTS = 64
MAX_CALLS = 16
"""Depth of function calls and subgraphs down to which calls are expanded."""
_NEGATIVE_AXES_OPSET = 11
_SHRINKING = frozenset(("NonZero", "Compress"))
"""Operators whose output has few elements if their input has, so that its unknown size is not a risk."""


@dataclass
class Scope:
    """Values that are visible in a graph.

    Attributes:
        outer: Scope of the graph around it.
        opsets: Version of each operator set.
        attributes: Attributes of the call of the function around it.
        depth: The number of subgraphs and function calls around it.
        declared: Declared types of its values.
        facts: Facts of its own values.
    """

    outer: Scope | None
    opsets: Mapping[str, int]
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    depth: int = 0
    declared: dict[str, onnx.TypeProto] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)

    def find(self, name: str) -> Facts:
        """Return the facts of a visible value."""
        scope: Scope | None = self
        while scope is not None:
            fact = scope.facts.get(name)
            if fact is not None:
                return fact
            scope = scope.outer
        return NO_FACTS


def max_visited_nodes(nodes: int) -> int:
    """Return how many nodes may be visited before function calls are no longer expanded.

    Nested calls may multiply the nodes without bound; exported models visit each node of a function a few times.

    Args:
        nodes: The number of nodes of the main graph.
    """
    return 20 * nodes + 20000


def propagate(model: bytes, *, asks_onnx: bool = True) -> list[Facts]:
    """Return the facts of every graph input and node output of a model, its subgraphs included.

    Args:
        model: A ModelProto, serialised; its tensors are in it or missing.
        asks_onnx: Whether onnx's inference is asked, which ends the process on some malformed nodes.

    Returns:
        For each graph its inputs, then for each node its outputs and, by attribute, the graphs in it.
    """
    return _Propagation(onnx.ModelProto.FromString(model), asks_onnx=asks_onnx).run()


class _Propagation:
    def __init__(self, model: onnx.ModelProto, *, asks_onnx: bool) -> None:
        self._model = model
        self._asks_onnx = asks_onnx
        self._functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        self._reported: list[Facts] = []
        self._visited = 0
        self._bytes = 0
        self._dims = 0
        self._types: dict[tuple[int, Dims | None], bytes] = {}

    def run(self) -> list[Facts]:
        opsets = {usual_name(entry.domain): entry.version for entry in self._model.opset_import} or {"": 1}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            self._visit_graph(self._model.graph, Scope(None, opsets), is_main=True)
        return self._reported

    def _visit_graph(
        self, graph: onnx.GraphProto, scope: Scope, input_facts: Sequence[Facts] = (), *, is_main: bool = False
    ) -> list[Facts]:
        """Visit the nodes of a graph, report the facts of its values and return the facts of its outputs."""
        for value in (*graph.output, *graph.value_info):
            if value.type.WhichOneof("value"):
                scope.declared[value.name] = value.type
        # A caller may replace the initializer of an input, so that its elements are only a default.
        has_defaults = is_main and self._model.ir_version >= REPLACEABLE_VERSION
        replaceable = {value.name for value in graph.input} if has_defaults else set()
        for tensor in graph.initializer:
            if tensor.name not in replaceable:
                scope.facts[tensor.name] = self._read_initializer(tensor)
        for i, value in enumerate(graph.input):
            fact = scope.facts.get(value.name) or self._merge_declared(
                input_facts[i] if i < len(input_facts) else NO_FACTS, value.type
            )
            scope.facts[value.name] = fact
            self._report(fact)
        for node in graph.node:
            self._visit_node(node, scope, is_reported=True)
        return [scope.find(value.name) for value in graph.output]

    def _visit_node(self, node: onnx.NodeProto, scope: Scope, *, is_reported: bool) -> None:
        self._visited += 1
        inputs = [scope.find(name) if name else NO_FACTS for name in node.input]
        first_output = len(self._reported)
        if is_reported:
            self._reported += [NO_FACTS] * len(node.output)
        outputs = self._infer_outputs(node, inputs, scope, is_reported=is_reported)
        for i, name in enumerate(node.output):
            fact = outputs[i] if i < len(outputs) else NO_FACTS
            # The inferred sizes of a slice win: the declared ones may come from an export at another input size.
            if name in scope.declared and not (fact.dims is not None and is_slicing(node)):
                fact = self._merge_declared(fact, scope.declared[name])
            fact = self._enforce_limits(fact)
            if name:
                scope.facts[name] = fact
            if is_reported:
                self._reported[first_output + i] = self._without_large_data(fact)

    def _infer_outputs(
        self, node: onnx.NodeProto, inputs: Sequence[Facts], scope: Scope, *, is_reported: bool
    ) -> Sequence[Facts]:
        graphs = [graph for attribute in node.attribute for graph in graphs_of(attribute)]
        if graphs:
            return self._visit_subgraphs(node, inputs, scope, is_reported=is_reported)
        if scope.attributes or any(attribute.ref_attr_name for attribute in node.attribute):
            node = _resolve_references(node, scope.attributes)
        domain = usual_name(node.domain)
        function = self._functions.get((node.domain, node.op_type, getattr(node, "overload", "")))
        if function is not None and domain != STRIDED_SLICE_DOMAIN:
            return self._call_function(function, node, inputs, scope)
        opset = scope.opsets.get(domain)
        if opset is None:
            return ()
        try:
            outputs = apply_own_rule(node, domain, inputs, opset)
        except InvalidSlice:  # reported when the node is read
            return ()
        if outputs is None:
            outputs = self._ask_onnx(node, inputs, domain, opset, scope)
        if not domain:
            self._compute(node, inputs, outputs, opset)
        return outputs

    def _visit_subgraphs(
        self, node: onnx.NodeProto, inputs: Sequence[Facts], scope: Scope, *, is_reported: bool
    ) -> list[Facts]:
        """Visit the bodies of a control flow node and return the facts of its outputs."""
        body_inputs: Sequence[Facts] = ()
        if node.op_type == "Loop" and not node.domain:
            carried = [Facts(fact.element, None, fact.non_tensor_type) for fact in inputs[2:]]
            body_inputs = [Facts(onnx.TensorProto.INT64, ()), Facts(onnx.TensorProto.BOOL, ()), *carried]
        results: dict[str, list[Facts]] = {}
        first_reported = len(self._reported)
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                inner = Scope(scope, scope.opsets, scope.attributes, scope.depth + 1)
                results[attribute.name] = self._visit_graph(graph, inner, body_inputs)
        if not is_reported:
            del self._reported[first_reported:]
        if node.domain not in STANDARD_DOMAINS:
            return []
        if node.op_type == "If":
            return _merge_branches(inputs[0] if inputs else NO_FACTS, results)
        body = results.get("body", [])
        if node.op_type == "Loop":
            carried_count = len(inputs) - 2
            carried = [Facts(fact.element, None, fact.non_tensor_type) for fact in body[1 : 1 + carried_count]]
            outputs = next((a.g.output for a in node.attribute if a.name == "body"), ())
            is_run = _certainly_runs(node, inputs)
            stacked = zip(body[1 + carried_count :], outputs[1 + carried_count :], strict=False)
            return carried + [_stack_iterations(fact, output.type, is_run=is_run) for fact, output in stacked]
        return []

    def _call_function(
        self, function: onnx.FunctionProto, node: onnx.NodeProto, inputs: Sequence[Facts], scope: Scope
    ) -> list[Facts]:
        """Visit the nodes of a function for one call of it and return the facts of its outputs."""
        if scope.depth > MAX_CALLS or self._visited > max_visited_nodes(len(self._model.graph.node)):
            return []
        opsets = {usual_name(entry.domain): entry.version for entry in function.opset_import}
        attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
        # A function does not see the values around its call.
        inner = Scope(None, opsets, attributes, scope.depth + 1)
        inner.facts = dict(zip(function.input, inputs, strict=False))
        for value in getattr(function, "value_info", ()):
            inner.declared[value.name] = value.type
        for body_node in function.node:
            self._visit_node(body_node, inner, is_reported=False)
        return [inner.facts.get(name, NO_FACTS) for name in function.output]

    def _ask_onnx(
        self, node: onnx.NodeProto, inputs: Sequence[Facts], domain: str, opset: int, scope: Scope
    ) -> list[Facts]:
        """Ask onnx for the facts of a node's outputs."""
        if not self._asks_onnx or len(node.output) > MAX_RANK:
            return []
        try:
            schema = onnx.defs.get_schema(node.op_type, opset, domain)
        except onnx.defs.SchemaError:
            return []
        if not schema.has_type_and_shape_inference_function:
            body = self._function_body(schema, node, inputs)
            return [] if body is None else self._call_function(body, node, inputs, scope)
        original = node
        if opset < _NEGATIVE_AXES_OPSET and inputs and inputs[0].dims is not None:
            node = normalize_axes(node, len(inputs[0].dims))
        types, data = {}, {}
        for name, fact in zip(node.input, inputs, strict=True):
            if name and (fact.element or fact.non_tensor_type):
                types[name] = fact.non_tensor_type or self._serialize_type(fact)
                if fact.data is not None and fact.data.size <= _MAX_INPUT_ELEMENTS:
                    data[name] = numpy_helper.from_array(fact.data, name).SerializeToString()
        try:
            infer: Any = schema._infer_node_outputs  # its annotation lacks parameters
            inferred = infer(node.SerializeToString(), types, data, {}, {domain: opset}, self._model.ir_version)
        except Exception:  # the node breaks its schema, which is reported when it is read
            return []
        facts = [read_type(inferred[name]) if name in inferred else Facts() for name in node.output]
        if not domain and facts:
            facts[0].dims = correct_first_output(original, inputs, facts[0].dims)
        return facts

    def _function_body(self, schema: Any, node: onnx.NodeProto, inputs: Sequence[Facts]) -> onnx.FunctionProto | None:
        """Return the function that defines a standard operator without inference in onnx; None if it has none."""
        body = schema.function_body if schema.has_function else None
        if body is None and schema.has_context_dependent_function and all(fact.element for fact in inputs):
            types = [self._serialize_type(fact) for fact in inputs]
            body = onnx.FunctionProto.FromString(schema.get_context_dependent_function(node.SerializeToString(), types))
        return body

    def _compute(self, node: onnx.NodeProto, inputs: Sequence[Facts], outputs: Sequence[Facts], opset: int) -> None:
        """Compute the elements of outputs and store them in their facts."""
        if any(fact.data is not None or fact.integers is not None for fact in outputs):
            return
        _compute_integers(node, inputs, outputs, opset)
        if not node.input or not outputs or outputs[0].data is not None:
            return
        # onnx's evaluator needs all elements of each input.
        if any(name and fact.data is None for name, fact in zip(node.input, inputs, strict=True)):
            return
        output_sizes = [fact.sizes for fact in outputs]
        # The largest elements, complex128, have 16 bytes.
        is_small = all(shape is not None and prod(shape) * 16 <= MAX_BYTES for shape in output_sizes)
        if not (is_small or node.op_type in _SHRINKING):
            return
        arrays = [fact.data if name else None for name, fact in zip(node.input, inputs, strict=True)]
        if sum(array.nbytes for array in arrays if array is not None) > MAX_BYTES:
            return
        if any(array is not None and array.dtype.names for array in arrays):
            return  # onnx 1.18 computes with the bits of bfloat16 and similar types
        for fact, array in zip(outputs, evaluate(node, arrays, opset), strict=False):
            if matches_facts(fact, array):
                fact.data, fact.dims = array, array.shape

    def _read_initializer(self, tensor: onnx.TensorProto) -> Facts:
        fact = Facts(tensor.data_type, tuple(tensor.dims))
        fact.data = read_tensor(tensor)
        return fact

    def _merge_declared(self, fact: Facts, declared: onnx.TypeProto) -> Facts:
        """Fill in from the declared type what was not inferred; inferred numbers win."""
        declared_fact = read_type(declared.SerializeToString())
        if not (fact.element or fact.non_tensor_type):
            fact = Facts(declared_fact.element, fact.dims, declared_fact.non_tensor_type, fact.data, fact.integers)
        if declared_fact.dims is None or fact.non_tensor_type:
            return fact
        if fact.dims is None:
            dims: Dims = declared_fact.dims
        elif len(fact.dims) == len(declared_fact.dims):
            pairs = zip(fact.dims, declared_fact.dims, strict=True)
            dims = tuple([inferred if isinstance(inferred, int) else written for inferred, written in pairs])
        else:
            return fact
        return Facts(fact.element, dims, fact.non_tensor_type, fact.data, fact.integers)

    def _enforce_limits(self, fact: Facts) -> Facts:
        """Drop sizes that no tensor has, and dims and elements once all facts together take too much memory."""
        if fact.dims is not None and any(isinstance(dim, int) and dim > INT64_MAX for dim in fact.dims):
            dims = tuple([None if isinstance(dim, int) and dim > INT64_MAX else dim for dim in fact.dims])
            fact = Facts(fact.element, dims, fact.non_tensor_type)
        if fact.dims is not None:
            self._dims += len(fact.dims)
            if len(fact.dims) > MAX_RANK or self._dims > _TOTAL_DIMS:
                return Facts(fact.element, None, fact.non_tensor_type)
        self._bytes += fact.data.nbytes if fact.data is not None else 0
        # About the size of a Python integer with its reference.
        self._bytes += 64 * fact.integers.size if fact.integers is not None else 0
        if self._bytes > _TOTAL_BYTES:
            return Facts(fact.element, fact.dims, fact.non_tensor_type)
        return fact

    def _report(self, fact: Facts) -> None:
        self._reported.append(self._without_large_data(fact))

    def _without_large_data(self, fact: Facts) -> Facts:
        is_large = fact.data is not None and fact.data.nbytes > LARGE_BYTES
        return Facts(fact.element, fact.dims, fact.non_tensor_type) if is_large else fact

    def _serialize_type(self, fact: Facts) -> bytes:
        key = (fact.element, fact.dims)
        if key not in self._types:
            self._types[key] = helper.make_tensor_type_proto(fact.element, fact.dims).SerializeToString()
        return self._types[key]


def _resolve_references(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """Return the node with references replaced by attributes of the call, or dropped if the call leaves them out."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    resolved = onnx.NodeProto()
    resolved.CopyFrom(node)
    del resolved.attribute[:]
    for attribute in node.attribute:
        value = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if value is not None:
            copied = resolved.attribute.add()
            copied.CopyFrom(value)
            copied.name = attribute.name
    return resolved


def _compute_integers(node: onnx.NodeProto, inputs: Sequence[Facts], outputs: Sequence[Facts], opset: int) -> None:
    """Compute the integers of a node's only output, and store those that follow from the known ones of the inputs."""
    sizes = outputs[0].sizes if len(outputs) == 1 else None
    if sizes is None or outputs[0].element not in (*INTEGER_LIMITS, onnx.TensorProto.BOOL):
        return
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    elements = [fact.list_integers() for fact in inputs]
    integers = shape_arithmetic.compute_elements(node.op_type, elements, attributes, sizes, opset)
    if integers is not None:
        outputs[0].set_integers(integers)


def _merge_branches(condition: Facts, results: Mapping[str, Sequence[Facts]]) -> list[Facts]:
    """Return the facts of the outputs of an If: those of the taken branch, or those that both branches share."""
    branches = [results.get("then_branch", ()), results.get("else_branch", ())]
    if condition.data is not None and condition.data.size == 1:
        return list(branches[0] if bool(condition.data.reshape(())) else branches[1])
    merged = []
    for on_true, on_false in zip(*branches, strict=False):
        dims: Dims | None = None
        if on_true.dims is not None and on_false.dims is not None and len(on_true.dims) == len(on_false.dims):
            dims = tuple(
                [size if size == other else None for size, other in zip(on_true.dims, on_false.dims, strict=True)]
            )
        element = on_true.element if on_true.element == on_false.element else 0
        is_same_type = on_true.non_tensor_type == on_false.non_tensor_type
        merged.append(Facts(element, dims, on_true.non_tensor_type if is_same_type else b""))
    return merged


def _certainly_runs(node: onnx.NodeProto, inputs: Sequence[Facts]) -> bool:
    """Return whether a Loop is certain to run its body: neither its trip count nor its condition is open or 0."""
    loop_inputs = [facts.data for name, facts in zip(node.input[:2], inputs, strict=False) if name]
    return all(data is not None and bool((data > 0).all()) for data in loop_inputs)


def _stack_iterations(facts: Facts, declared: onnx.TypeProto | None, *, is_run: bool) -> Facts:
    """Return the facts of a scan output of a Loop, which stacks one output of the body over all iterations.

    Args:
        facts: Facts of the body's output.
        declared: The declared type of the body's output.
        is_run: Whether the body runs at least once. Otherwise onnxruntime takes the sizes from its own inference, and 0
            for each size that is not a number there, so only declared numbers are certain.
    """
    dims = facts.dims
    if not is_run:
        dims = read_type(declared.SerializeToString()).dims if declared is not None else None
        dims = dims and tuple([dim if isinstance(dim, int) else None for dim in dims])
    return Facts(facts.element, None if dims is None else (None, *dims))

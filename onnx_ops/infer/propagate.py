"""Propagation of types, shapes and constants through a model, node by node.

Slicing and shape arithmetic follow `rules` and `shape_arithmetic`, which accept open sizes among known ones. onnx
infers the other shapes, one node at a time, and its reference operators compute the other constants. onnx's inference
of whole models is not used: its data propagation multiplies tensors of any size, and it prefers declared shapes to
inferred ones. onnx-ir is not imported here, because that takes longer than the inference of most models.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from onnx_ops.infer.control_flow import (
    changes_size,
    infer_loop,
    infer_scan,
    keep_sizes,
    list_arguments,
    merge_branches,
    untaken_branch,
)
from onnx_ops.infer.corrections import correct_first_output, normalize_axes
from onnx_ops.infer.declared import Trust, fill_in_declared, holds_for_all_sizes, name_open_sizes
from onnx_ops.infer.exact import compute_few_elements
from onnx_ops.infer.facts import (
    MAX_RANK,
    NO_FACTS,
    Facts,
    drop_large_data,
    read_tensor,
    read_type,
    serialize_inputs,
    serialize_type,
)
from onnx_ops.infer.misdeclared import Evidence, find_misdeclared
from onnx_ops.infer.rules import apply_own_rule
from onnx_ops.infer.scope import Scope
from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN, usual_name
from onnx_ops.model.nodes import is_slicing
from onnx_ops.model.proto_walk import all_nodes, graphs_of, resolve_references
from onnx_ops.model.views import fits
from sliceport.engines.sizes import InputShapes
from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX

_TOTAL_BYTES = 2**27  # the limit for the elements of all facts of a model; further values keep no elements
_TOTAL_DIMS = 2**22  # the limit for the dims of all facts of a model; further values keep neither dims nor elements
_MAX_CALLS = 16  # the depth of subgraphs and function calls down to which function calls are expanded
# Calls and Loops in one another may multiply visits without bound. In exported models, a node is visited a few times.
_VISITS = 20000  # the limit for visits of nodes, in addition to 20 for each node; then, calls are not expanded any more
_NEGATIVE_AXES_OPSET = 11  # the first operator set in which onnx's inference counts axes below 0 from the end


def propagate(model: bytes, bound_shapes: InputShapes = MappingProxyType({}), *, uses_onnx: bool = True) -> list[Facts]:
    """Return the facts (type, sizes and elements) of every graph input and node output, also in subgraphs.

    Args:
        model: A serialised ModelProto. Tensors in other files are not read.
        bound_shapes: The shapes that the user has given for graph inputs and node outputs; see `bind_shapes`.
        uses_onnx: Whether to call onnx's inference, which ends the process on some malformed nodes.

    Returns:
        The facts in the order of the values: first the inputs of the graph, then, for each node, its outputs, followed
        by the values of its subgraphs in the order of its attributes.

    Raises:
        RecursionError, google.protobuf.message.DecodeError: The graphs are nested too deep.
    """

    def run(trust: Trust, sizes: Mapping[str, int] | None = None) -> _Propagation:
        proto = onnx.ModelProto.FromString(model)  # each propagation changes its own copy
        propagation = _Propagation(proto, bound_shapes, sizes, uses_onnx=uses_onnx, trust=trust)
        propagation.run()
        return propagation

    first = run(Trust.ALL)

    def run_trial(sizes: Mapping[str, int]) -> Evidence:
        # The sizes that a custom operator declares may not hold for the sizes of this trial. If `sizes` is empty, the
        # inputs have their declared sizes.
        return run(Trust.NONE if sizes else Trust.CUSTOM, sizes).evidence

    trust, misdeclared = find_misdeclared(first.evidence, run_trial)
    # If inference contradicts a shape of the user, a declared number may be the cause, so none is used.
    trust = Trust.NONE if first.contradicts_bound else trust
    reported = first.reported if trust is Trust.ALL else run(trust).reported
    for position in misdeclared:
        reported[position] = replace(reported[position], is_misdeclared=True)
    return reported


class _Propagation:
    """One propagation through `model`, which is changed.

    In a trial of `find_misdeclared`, `sizes` has a number for each symbol of the inputs. Otherwise `sizes` is None.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        bound_shapes: InputShapes,
        sizes: Mapping[str, int] | None,
        *,
        uses_onnx: bool,
        trust: Trust,
    ) -> None:
        self._model = model
        self._bound_shapes = bound_shapes
        self._uses_onnx = uses_onnx
        self._trust = trust
        self._functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        self._added_symbols = name_open_sizes(model.graph)  # before the loop, because `sizes` may contain them
        for value in model.graph.input:
            for dim in value.type.tensor_type.shape.dim:
                if sizes and dim.dim_param in sizes:
                    dim.dim_value = sizes[dim.dim_param]
        input_dims = {value.name: read_type(value.type.SerializeToString()).dims for value in model.graph.input}
        self.evidence = Evidence(input_dims, is_bound=bool(bound_shapes), is_trial=sizes is not None)
        self.reported: list[Facts] = []
        self.contradicts_bound = False  # whether inference finds another shape than the user gives for a node's output
        self._visited_nodes, self._max_visited = 0, _VISITS + 20 * sum(1 for _ in all_nodes(model.graph))
        self._total_bytes, self._total_dims = 0, 0  # sums over all facts so far, for `_enforce_limits`

    def run(self) -> None:
        """Store the facts in `reported`, in the order of the result of `propagate`."""
        # A model of an IR version below 3 imports no operator sets. Its operators are those of version 1.
        opsets = {usual_name(entry.domain): entry.version for entry in self._model.opset_import} or {"": 1}
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # computed constants may overflow
            warnings.simplefilter("ignore")
            self._visit_graph(self._model.graph, Scope(None, opsets))
        for facts in self.reported:
            if facts.dims is not None and self._added_symbols:
                facts.dims = tuple([None if dim in self._added_symbols else dim for dim in facts.dims])

    def _visit_graph(
        self,
        graph: onnx.GraphProto,
        scope: Scope,
        input_facts: Sequence[Facts] = (),
        arguments: Sequence[Facts] = (),
        *,
        trusts_inputs: bool = True,
    ) -> list[Facts]:
        """Visit the nodes of a graph, store and report the facts of its values, and return the facts of its outputs.

        For the inputs of a subgraph, `input_facts` are the facts in every iteration, and `arguments` those in the first
        one. The sizes that an input of a subgraph declares are used only if `trusts_inputs`. A size that `arguments`
        do not confirm is noted in `evidence`.
        """
        scope.declare((*graph.output, *graph.value_info))
        # A caller may replace the initializer of an input, so the elements of the initializer are only a default.
        has_defaults = not scope.depth and self._model.ir_version >= REPLACEABLE_VERSION
        replaceable = {value.name for value in graph.input} if has_defaults else set()
        for tensor in graph.initializer:
            if tensor.name not in replaceable:
                scope.facts[tensor.name] = Facts(tensor.data_type, tuple(tensor.dims), data=read_tensor(tensor))
        for index, value in enumerate(graph.input):
            inferred = input_facts[index] if index < len(input_facts) else NO_FACTS  # callers may pass fewer inputs
            is_trusted = not scope.depth or (trusts_inputs and self._trusts_sizes(value.type, scope))
            completed = fill_in_declared(inferred, value.type, uses_numbers=is_trusted)
            # An input with an initializer that is not a default keeps the facts of the initializer.
            facts = scope.facts.setdefault(value.name, completed)
            if scope.is_reported and index < len(arguments):
                self.evidence.note_declared(len(self.reported), value.type, arguments[index])
            if scope.is_reported:
                self.reported.append(drop_large_data(facts))
        for node in graph.node:
            self._visit_node(node, scope)
        return [scope.find_facts(value.name) for value in graph.output]

    def _trusts_sizes(self, declared: onnx.TypeProto, scope: Scope) -> bool:
        """Return whether to use the sizes in a declared type.

        Sizes in functions, and in types other than tensors, are not used, because no trial confirms them.
        """
        return self._trust is Trust.ALL and scope.is_reported and declared.HasField("tensor_type")

    def _visit_node(self, node: onnx.NodeProto, scope: Scope) -> None:
        """Store the facts of a node's outputs in `scope`, completed by given shapes or declared types.

        If `scope.is_reported`, also add them to `reported`.
        """
        self._visited_nodes += 1
        inputs = [scope.find_facts(name) if name else NO_FACTS for name in node.input]
        first_output = len(self.reported)
        if scope.is_reported:
            # The outputs of a node are listed before the values of its subgraphs, but inferred after them.
            self.reported += [NO_FACTS] * len(node.output)
        outputs = self._infer_outputs(node, inputs, scope)
        for index, name in enumerate(node.output):
            inferred = outputs[index] if outputs and index < len(outputs) else NO_FACTS
            completed = inferred
            # The user gives shapes only for values of the main graph.
            bound_shape = None if scope.depth else self._bound_shapes.get(name)
            if bound_shape is not None and fits(inferred.dims, bound_shape):
                completed = replace(inferred, dims=tuple(bound_shape))
            elif bound_shape is not None:
                self.contradicts_bound = True
            elif name in scope.declared:
                declared = scope.declared[name]
                if scope.is_reported and outputs is not None:
                    self.evidence.note_declared(first_output + index, declared, inferred)
                # Inferred sizes of a slice stay, because declared ones may come from an export at another input size.
                if inferred.dims is None or not is_slicing(node):
                    if outputs is None:
                        is_trusted = self._trust is not Trust.NONE and holds_for_all_sizes(declared, node, inputs)
                    else:
                        is_trusted = self._trusts_sizes(declared, scope)
                    completed = fill_in_declared(inferred, declared, uses_numbers=is_trusted)
            facts = self._enforce_limits(completed)
            if name:
                scope.facts[name] = facts
            if scope.is_reported:
                self.reported[first_output + index] = drop_large_data(facts)

    def _infer_outputs(self, node: onnx.NodeProto, inputs: Sequence[Facts], scope: Scope) -> Sequence[Facts] | None:
        """Return the facts of a node's outputs, from its subgraphs, its function, a rule of this package, or onnx.

        Return None for an operator without inference, and an empty sequence if inference fails.
        """
        graphs = [graph for attribute in node.attribute for graph in graphs_of(attribute)]
        if graphs:
            return self._visit_subgraphs(node, inputs, scope)
        if any(attribute.ref_attr_name for attribute in node.attribute):
            node = resolve_references(node, scope.attributes, drops_other_types=True)
        domain = usual_name(node.domain)
        key = (node.domain, node.op_type, getattr(node, "overload", ""))
        if key in self._functions and key != (STRIDED_SLICE_DOMAIN, "StridedSlice", ""):  # `apply_own_rule` infers it
            return self._call_function(self._functions[key], node, inputs, scope)
        if (opset := scope.opsets.get(domain)) is None:
            return None
        try:
            outputs = apply_own_rule(node, domain, inputs, opset)
        except InvalidSlice:  # the error is reported when the node is read
            self.evidence.note_failure(inputs)
            return ()
        if outputs is None:
            outputs = self._infer_by_onnx(node, inputs, domain, opset, scope)
        if not domain and outputs is not None:
            compute_few_elements(node, inputs, outputs, opset)
        return outputs

    def _visit_subgraphs(self, node: onnx.NodeProto, inputs: Sequence[Facts], scope: Scope) -> list[Facts] | None:
        """Visit the subgraphs of a node. Return the facts of the outputs of an If, a Loop or a Scan, otherwise None."""
        domain = usual_name(node.domain)
        opset = scope.opsets.get(domain, 1)
        arguments = [] if domain else list_arguments(node, inputs, opset)
        untaken = untaken_branch(inputs[0]) if node.op_type == "If" and inputs else ""
        # The facts of the outputs of each body, by the name of the attribute that holds the body.
        body_outputs: dict[str, list[Facts]] = {}
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                first_of_body = len(self.reported)
                body_outputs[attribute.name] = self._visit_body(node, graph, scope, arguments)
                if attribute.name == untaken:  # wrong sizes in this branch do no harm
                    self.evidence.forget(range(first_of_body, len(self.reported)))
        if domain:
            return None
        if node.op_type == "If":
            return merge_branches(untaken, body_outputs)
        if node.op_type == "Loop":
            return infer_loop(node, inputs, body_outputs.get("body", []))
        return infer_scan(node, inputs, body_outputs.get("body", []), opset) if node.op_type == "Scan" else None

    def _visit_body(
        self, node: onnx.NodeProto, graph: onnx.GraphProto, scope: Scope, arguments: Sequence[Facts]
    ) -> list[Facts]:
        """Visit a subgraph of a node and return the facts of its outputs.

        The carried values of a Loop begin with the sizes before the first iteration. While an iteration changes sizes,
        the body is visited again with these sizes open. In the fourth and last visit, the ranks are open, too.
        """
        if node.op_type != "Loop" or not arguments:
            return self._visit_graph(graph, scope.enter(), arguments, arguments)
        first_reported = len(self.reported)
        is_limited = self._visited_nodes > self._max_visited  # then the visit with all sizes open has to be enough
        carried = [keep_sizes(facts, NO_FACTS if is_limited else facts) for facts in arguments[2:]]  # without symbols
        resized: list[bool] = []
        for visit in range(3 if is_limited else 0, 4):
            inner = scope.enter()
            outputs = self._visit_graph(graph, inner, [*arguments[:2], *carried], arguments, trusts_inputs=visit == 0)
            # Two inputs and one output precede the carried values. In the first visit, declared types complete facts.
            before = carried if visit else [inner.facts[value.name] for value in graph.input[2:]]
            resized = resized if visit else list(map(changes_size, before, outputs[1:]))
            carried = list(map(keep_sizes, before, outputs[1:]))
            if visit == 3 or [each.dims for each in carried] == [keep_sizes(each, each).dims for each in before]:
                break  # no iteration changes a size any more, or all sizes are open
            carried = [replace(facts, dims=None) for facts in carried] if visit == 2 else carried
            del self.reported[first_reported:]  # the next visit reports the same values again
        for position, is_resized in enumerate(resized if scope.is_reported else (), first_reported + 2):
            self.reported[position] = replace(self.reported[position], is_resized=is_resized)
        return outputs

    def _call_function(
        self, function: onnx.FunctionProto, node: onnx.NodeProto, inputs: Sequence[Facts], scope: Scope
    ) -> list[Facts]:
        """Return the facts of a function's outputs for a call; [] beyond `_MAX_CALLS` or after too many nodes."""
        if scope.depth > _MAX_CALLS or self._visited_nodes > self._max_visited:
            return []
        opsets = {usual_name(entry.domain): entry.version for entry in function.opset_import}
        attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
        # A function does not see the values around its call.
        inner = Scope(None, opsets, attributes, scope.depth + 1, is_reported=False)
        inner.facts = dict(zip(function.input, inputs, strict=False))
        inner.declare(function.value_info)
        for body_node in function.node:
            self._visit_node(body_node, inner)
        return [inner.facts.get(name, NO_FACTS) for name in function.output]

    def _infer_by_onnx(
        self, node: onnx.NodeProto, inputs: Sequence[Facts], domain: str, opset: int, scope: Scope
    ) -> list[Facts] | None:
        """Return the facts of a node's outputs by onnx's inference. Return [] if the inference fails.

        If onnx has no inference for the operator, visit the function that defines the operator instead. Return None if
        there is no such function for these inputs, onnx is not used, or onnx lacks the operator.
        """
        if not self._uses_onnx:
            return None
        try:
            # Compress-9 has no inference. Compress-11 differs from it only by negative axes.
            schema = onnx.defs.get_schema(node.op_type, max(opset, 11 if node.op_type == "Compress" else 1), domain)
        except onnx.defs.SchemaError:
            return None
        if not schema.has_type_and_shape_inference_function:
            body = self._function_body(schema, node, inputs)
            return None if body is None else self._call_function(body, node, inputs, scope)
        original = node  # for `correct_first_output`, which needs to see negative axes
        if opset < _NEGATIVE_AXES_OPSET and inputs and inputs[0].dims is not None:
            node = normalize_axes(node, len(inputs[0].dims))
        types, tensors = serialize_inputs(node, inputs)
        try:
            # The public function, `onnx.shape_inference.infer_node_outputs`, refuses inputs of unknown types.
            infer: Any = schema._infer_node_outputs  # its annotation lacks parameters
            inferred = infer(node.SerializeToString(), types, tensors, {}, {domain: opset}, self._model.ir_version)
        except Exception:  # the node breaks its schema
            self.evidence.note_failure(inputs)
            return []
        outputs = [read_type(inferred[name]) if name in inferred else Facts() for name in node.output]
        if not domain and outputs:
            outputs[0].dims = correct_first_output(original, inputs, outputs[0].dims)
            if node.op_type == "Reshape" and len({inputs[0].count, outputs[0].count} - {None}) > 1:
                self.evidence.note_failure(inputs)  # onnx accepts a wrong number of elements
        return outputs

    def _function_body(self, schema: Any, node: onnx.NodeProto, inputs: Sequence[Facts]) -> onnx.FunctionProto | None:
        """Return the function that defines an operator; None if it does not exist or depends on unknown input types."""
        body = schema.function_body if schema.has_function else None
        if body is None and schema.has_context_dependent_function and all(facts.element for facts in inputs):
            types = [serialize_type(facts.element, facts.dims) for facts in inputs]
            body = onnx.FunctionProto.FromString(schema.get_context_dependent_function(node.SerializeToString(), types))
        return body

    def _enforce_limits(self, facts: Facts) -> Facts:
        """Return facts without sizes, ranks and elements that are too large.

        Count the dims and bytes of all facts. Facts beyond the limit of dims for the whole model keep neither dims nor
        elements, and facts beyond the limit of bytes keep no elements.
        """
        if facts.dims is not None and any(isinstance(dim, int) and dim > INT64_MAX for dim in facts.dims):
            dims = tuple([None if isinstance(dim, int) and dim > INT64_MAX else dim for dim in facts.dims])
            facts = Facts(facts.element, dims, facts.non_tensor_type)
        if facts.dims is not None:
            self._total_dims += len(facts.dims)
            if len(facts.dims) > MAX_RANK or self._total_dims > _TOTAL_DIMS:
                return Facts(facts.element, None, facts.non_tensor_type)
        self._total_bytes += facts.data.nbytes if facts.data is not None else 0
        # A Python integer and the reference to it take about 64 bytes.
        self._total_bytes += 64 * facts.integers.size if facts.integers is not None else 0
        if self._total_bytes > _TOTAL_BYTES:
            return Facts(facts.element, facts.dims, facts.non_tensor_type)
        return facts

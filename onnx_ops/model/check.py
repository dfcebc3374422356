"""The check that an ONNX model is well-formed, on which all later stages rely.

Nodes are not checked against the specifications of their operators, except for the types of a Constant's attributes,
which many later stages read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx

from onnx_ops.model.check_tensor import (
    Findings,
    check_element_type,
    check_metadata,
    check_rank,
    check_sparse,
    check_tensor,
    check_text,
)
from onnx_ops.model.domains import STANDARD_DOMAINS, STRIDED_SLICE_DOMAIN, usual_name
from onnx_ops.model.proto_walk import all_nodes, graphs_of, model_nodes
from sliceport.errors import ModelError

REPLACEABLE_VERSION = 4
"""The first IR version in which the initializer of a graph input is only a default: a caller may replace it."""
_MAX_VERSION = 2**31 - 1
"""The largest version of an operator set that onnx accepts as an argument."""
_ATTRIBUTE = onnx.AttributeProto
_ATTRIBUTE_TYPES = frozenset(_ATTRIBUTE.AttributeType.values()) - {_ATTRIBUTE.UNDEFINED}
_VALUE_FIELDS = {
    _ATTRIBUTE.TENSOR: "t",
    _ATTRIBUTE.GRAPH: "g",
    _ATTRIBUTE.SPARSE_TENSOR: "sparse_tensor",
    _ATTRIBUTE.TYPE_PROTO: "tp",
}
"""The field that must be set, for each type of attribute whose value is one message.

The fields of numbers and texts may be unset: they read as 0 and as an empty text.
"""
_CONSTANTS = {
    "value": _ATTRIBUTE.TENSOR,
    "sparse_value": _ATTRIBUTE.SPARSE_TENSOR,
    "value_int": _ATTRIBUTE.INT,
    "value_ints": _ATTRIBUTE.INTS,
    "value_float": _ATTRIBUTE.FLOAT,
    "value_floats": _ATTRIBUTE.FLOATS,
    "value_string": _ATTRIBUTE.STRING,
    "value_strings": _ATTRIBUTE.STRINGS,
}
"""The type of each attribute of Constant."""


def check_proto(proto: onnx.ModelProto) -> Findings:
    """Check that a model is well-formed, and return the findings.

    Among the rules: text is UTF-8, each name is defined once, element types exist, the data of small tensors fit their
    shapes, data files are in the folder of the model, and no function calls itself.

    Raises:
        ModelError: The model breaks a rule.
    """
    # Protobuf parses nearly any bytes. These two fields distinguish a model from another file.
    if proto.ir_version < 1 or not proto.HasField("graph"):
        raise ModelError("it holds no graph or no IR version, so it is not an ONNX model.")
    if not proto.opset_import and proto.ir_version >= 3:  # earlier versions have no operator set imports
        raise ModelError("it imports no operator set.")
    check_text("the model", (proto.producer_name, proto.producer_version, proto.domain, proto.doc_string))
    _check_imports("the model", proto.opset_import)
    check_metadata("the model", proto.metadata_props)
    findings = Findings()
    _check_graph(proto.graph, (), findings)
    for function in proto.functions:
        _check_function(function, findings)
        # A node of ov_ext::StridedSlice is read as an operator, so its function is not inlined.
        if (function.domain, function.name, function.overload) != (STRIDED_SLICE_DOMAIN, "StridedSlice", ""):
            findings.has_functions = True
    check_calls(proto.functions)
    _refuse_shadowed_operators(proto)
    return findings


def _check_function(function: onnx.FunctionProto, findings: Findings) -> None:
    owner = f"function {function.name!r}"
    names = (*function.input, *function.output, *function.attribute)
    check_text(owner, (function.name, function.domain, function.overload, function.doc_string, *names))
    _check_imports(owner, function.opset_import)
    check_metadata(owner, function.metadata_props)
    for value in function.value_info:
        _check_value(value, owner, findings)
    for attribute in function.attribute_proto:
        _check_attribute(attribute, owner, (), findings)
    defined = set(function.input)
    _check_nodes(function.node, defined, (), owner, findings)  # adds the outputs of the nodes to `defined`
    _check_outputs(function.output, defined, (), owner, findings)


def _refuse_shadowed_operators(proto: onnx.ModelProto) -> None:
    """Check that no node calls a function that has the name of a standard operator.

    onnx's inference and reference, onnxruntime and OpenVINO all treat such a node as the operator.
    """
    versions = [entry.version for entry in proto.opset_import if entry.domain in STANDARD_DOMAINS]
    functions = [f for f in proto.functions if f.domain in STANDARD_DOMAINS and not f.overload]
    # A node calls the function that has the node's overload. Nodes of operators have no overload, so only a function
    # without an overload can be confused with an operator.
    shadowed = {f.name for f in functions if any(onnx.defs.has(f.name, version, "") for version in versions)}
    if shadowed:
        for node in model_nodes(proto):
            if node.op_type in shadowed and node.domain in STANDARD_DOMAINS and not node.overload:
                raise ModelError(f"function {node.op_type!r} has the name of one of ONNX's operators.")


_Scopes = tuple[set[str], ...]
"""Two sets for each surrounding graph, innermost first: the names defined so far, and the outputs of all its nodes.

All sets are in one flat tuple. Joining them would take quadratic time for deeply nested graphs.
"""


def check_calls(functions: Sequence[onnx.FunctionProto]) -> None:
    """Check that no function is defined twice or calls itself, directly or through others."""
    calls: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
    for function in functions:
        key = (usual_name(function.domain), function.name, function.overload)
        if key in calls:
            raise ModelError(f"function {function.name!r} of domain {function.domain!r} is defined twice.")
        calls[key] = {(usual_name(node.domain), node.op_type, node.overload) for node in all_nodes(function)}
    try:
        # The order of a set differs between runs. Sorting lets each run report the same one of several cycles.
        TopologicalSorter({key: sorted(called & calls.keys()) for key, called in calls.items()}).prepare()
    except CycleError as error:
        cycle = error.args[1]  # the keys of its functions
        raise ModelError(f"function {min(cycle)[1]!r} calls itself, directly or through others.") from None


def _check_graph(graph: onnx.GraphProto, outer: _Scopes, findings: Findings) -> None:
    """Check a graph and its subgraphs, and update `findings`. `outer` has the scopes of the graphs around it."""
    owner = f"graph {graph.name!r}" if graph.name else "the graph"
    check_text(owner, (graph.name, graph.doc_string))
    check_metadata(owner, graph.metadata_props)
    for value in (*graph.input, *graph.value_info, *graph.output):
        _check_value(value, owner, findings)
    for tensor in graph.initializer:
        check_tensor(tensor, owner, findings)
    for sparse in graph.sparse_initializer:
        check_sparse(sparse, owner, findings)
        findings.sparse_initializer = sparse.values.name
    inputs = [value.name for value in graph.input]
    initializers = [tensor.name for tensor in (*graph.initializer, *(each.values for each in graph.sparse_initializer))]
    for kind, names in (("input", inputs), ("initializer", initializers)):
        if "" in names:
            raise ModelError(f"{owner} has an {kind} without a name.")
        if len(set(names)) < len(names):
            repeated = next(name for name, count in Counter(names).items() if count > 1)
            raise ModelError(f"{owner} defines {kind} {repeated!r} twice.")
    defined = {*inputs, *initializers}
    _check_nodes(graph.node, defined, outer, owner, findings)
    _check_outputs([value.name for value in graph.output], defined, outer, owner, findings)


def _check_outputs(names: Iterable[str], defined: set[str], outer: _Scopes, owner: str, findings: Findings) -> None:
    """Check that each output has a defined name. Record in `findings` a name that only an outer graph defines."""
    for name in names:
        if not name:
            raise ModelError(f"{owner} has an output without a name.")
        if name not in defined:
            if not any(name in scope for scope in outer):
                raise ModelError(f"{owner} has output {name!r}, which nothing in it defines.")
            findings.outer_output = name


def _check_nodes(
    nodes: Sequence[onnx.NodeProto], defined: set[str], outer: _Scopes, owner: str, findings: Findings
) -> None:
    """Check the nodes of a graph or function, and add their outputs to `defined`.

    The caller puts the names of the inputs and initializers into `defined`. For `outer` see `_Scopes`.
    """
    all_outputs: set[str] = set()
    label = f"a node of {owner}"
    node_values: list[tuple[onnx.NodeProto, list[str], list[str]]] = []
    for node in nodes:
        inputs, outputs = node.input[:], node.output[:]  # copies, because iterating over protobuf's lists is slower
        check_text(label, (node.name, node.op_type, node.domain, node.overload, node.doc_string, *inputs, *outputs))
        for name in outputs:
            if name and (name in all_outputs or name in defined):
                raise ModelError(
                    f"{owner} defines value {name!r} twice; node {_describe_node(node)} is the second to do so."
                )
            all_outputs.add(name)
        node_values.append((node, inputs, outputs))
    defined.add("")  # the name of each left-out input
    defined_outside, outputs_outside = outer[::2], outer[1::2]
    for node, inputs, outputs in node_values:
        for name in [name for name in inputs if name not in defined]:
            if not any(name in earlier for earlier in defined_outside):
                if not any(name in outputs_of_graph for outputs_of_graph in (all_outputs, *outputs_outside)):
                    raise ModelError(f"node {_describe_node(node)} reads value {name!r}, which nothing defines.")
                findings.is_sorted = False  # this node or a later one defines the value, here or in an outer graph
        if node.attribute or node.metadata_props:
            _check_attributes(node, (defined, all_outputs, *outer), findings)
        defined.update(outputs)


def _check_attributes(node: onnx.NodeProto, outer: _Scopes, findings: Findings) -> None:
    owner = f"node {_describe_node(node)}"
    check_metadata(owner, node.metadata_props)
    if len({attribute.name for attribute in node.attribute}) < len(node.attribute):
        name, _ = Counter(attribute.name for attribute in node.attribute).most_common(1)[0]
        raise ModelError(f"{owner} has attribute {name!r} twice.")
    is_constant = node.op_type == "Constant" and node.domain in STANDARD_DOMAINS
    for attribute in node.attribute:
        _check_attribute(attribute, owner, outer, findings)
        expected = _CONSTANTS.get(attribute.name, attribute.type)
        if is_constant and not attribute.ref_attr_name and attribute.type != expected:
            got, needed = map(_ATTRIBUTE.AttributeType.Name, (attribute.type, expected))
            raise ModelError(f"{owner} has attribute {attribute.name!r} of type {got}; its type must be {needed}.")


def _check_attribute(attribute: onnx.AttributeProto, owner: str, outer: _Scopes, findings: Findings) -> None:
    """Check an attribute, and the graphs, tensors and types in it. `outer` has the scopes of the graphs around it."""
    check_text(owner, (attribute.name, attribute.ref_attr_name, attribute.doc_string))
    if attribute.type not in _ATTRIBUTE_TYPES:
        raise ModelError(
            f"{owner} has attribute {attribute.name!r} of type {attribute.type}, which ONNX does not define."
        )
    if attribute.ref_attr_name and attribute.type in (_ATTRIBUTE.GRAPH, _ATTRIBUTE.GRAPHS):
        raise ModelError(
            f"{owner} has attribute {attribute.name!r}, a graph that the call of a function sets: not supported."
        )
    if attribute.type in (_ATTRIBUTE.SPARSE_TENSOR, _ATTRIBUTE.SPARSE_TENSORS):
        findings.is_plain = False  # `check_sparse` does this, too, but is not called if `ref_attr_name` is set
    value_field = None if attribute.ref_attr_name else _VALUE_FIELDS.get(attribute.type)
    if value_field is not None and not attribute.HasField(value_field):
        type_name = _ATTRIBUTE.AttributeType.Name(attribute.type)
        raise ModelError(f"{owner} has attribute {attribute.name!r} of type {type_name} without a value.")
    for graph in graphs_of(attribute):
        _check_graph(graph, outer, findings)
    for tensor in (*_field_if_set(attribute, "t"), *attribute.tensors):
        check_tensor(tensor, owner, findings)
    for sparse in (*_field_if_set(attribute, "sparse_tensor"), *attribute.sparse_tensors):
        check_sparse(sparse, owner, findings)
    for type_proto in (*_field_if_set(attribute, "tp"), *attribute.type_protos):
        _check_type(type_proto, f"attribute {attribute.name!r} of {owner}", findings)


def _field_if_set(attribute: onnx.AttributeProto, name: str) -> tuple[Any, ...]:
    """Return `(message,)` if a field is set, otherwise `()`. Protobuf reads an unset field as an empty message."""
    return (getattr(attribute, name),) if attribute.HasField(name) else ()


def _check_value(value: onnx.ValueInfoProto, owner: str, findings: Findings) -> None:
    check_text(owner, (value.name, value.doc_string))
    if value.metadata_props:
        check_metadata(f"value {value.name!r}", value.metadata_props)
    if value.HasField("type"):
        _check_type(value.type, f"value {value.name!r}", findings)


def _check_type(type_proto: onnx.TypeProto, owner: str, findings: Findings) -> None:
    """Check a type. Record in `findings` if the type is not a dense tensor, or has a negative size."""
    kind = type_proto.WhichOneof("value")
    findings.is_plain &= kind in ("tensor_type", None)
    check_text(owner, (type_proto.denotation,))
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor_type = getattr(type_proto, kind)
        check_element_type(tensor_type.elem_type, owner)
        check_rank(len(tensor_type.shape.dim), owner)
        for dim in tensor_type.shape.dim:
            check_text(owner, (dim.dim_param, dim.denotation))
            findings.has_negative_sizes |= dim.dim_value < 0
    elif kind in ("sequence_type", "optional_type"):
        _check_type(getattr(type_proto, kind).elem_type, owner, findings)
    elif kind == "map_type":
        check_element_type(type_proto.map_type.key_type, owner)
        _check_type(type_proto.map_type.value_type, owner, findings)


def _check_imports(owner: str, imports: Sequence[onnx.OperatorSetIdProto]) -> None:
    """Check that versions are in range, and that ONNX's operators are imported in one version."""
    check_text(owner, [entry.domain for entry in imports])
    versions = {entry.version for entry in imports if entry.domain in STANDARD_DOMAINS}
    if len(versions) > 1:
        raise ModelError(f"{owner} imports versions {', '.join(map(str, sorted(versions)))} of ONNX's operators.")
    for entry in imports:
        if entry.domain in STANDARD_DOMAINS and entry.version < 1:
            raise ModelError(f"{owner} imports version {entry.version} of ONNX's operators; the first is 1.")
        if not 0 <= entry.version <= _MAX_VERSION:
            raise ModelError(f"{owner} imports invalid version {entry.version} of domain {entry.domain!r}.")


def _describe_node(node: onnx.NodeProto) -> str:
    """Return the name of a node, or else of its first named output, followed by the operator of the node."""
    return f"{node.name or next(filter(None, node.output), '')!r} ({node.op_type})"

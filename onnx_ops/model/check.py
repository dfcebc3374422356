"""The check that an ONNX model is well-formed, on which all later stages rely.

Nodes are not checked against the specifications of their operators, except for the types of a Constant's attributes,
which many later stages read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import PureWindowsPath
from typing import Any

import onnx

from onnx_ops.model.domains import STANDARD_DOMAINS, usual_name
from onnx_ops.model.element_type import BITS, ElementType
from onnx_ops.model.nodes import MAX_AXES
from onnx_ops.model.proto_walk import all_nodes, graphs_of, model_nodes, proto_node_name
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

_MAX_BYTES = 2**63
"""A size that no file reaches, because file sizes are signed 64-bit numbers."""
_MAX_DIGITS = 19  # the digits of _MAX_BYTES
_MAX_CHECKED_BYTES = 2**20
"""Larger tensors are weights. Their data are not checked, because protobuf copies the data to return the length."""
_DATA_FIELDS: dict[int, tuple[str, int]] = {
    ElementType.FLOAT: ("float_data", 1),
    ElementType.DOUBLE: ("double_data", 1),
    ElementType.COMPLEX64: ("float_data", 2),
    ElementType.COMPLEX128: ("double_data", 2),
    ElementType.INT64: ("int64_data", 1),
    ElementType.UINT32: ("uint64_data", 1),
    ElementType.UINT64: ("uint64_data", 1),
    ElementType.STRING: ("string_data", 1),
}
"""For some element types, the field that lists the elements if there are no raw data, and the entries per element.

All other types of at least 8 bits use one entry of `int32_data` per element.
"""


@dataclass
class Findings:
    """Properties of a well-formed model. `check_proto` sets them.

    Attributes:
        is_sorted: Whether every node comes after all nodes whose outputs it or its subgraphs read.
        data_files: The external data files, as the model names them.
        has_negative_sizes: Whether a type is declared with a size below 0.
        outer_output: An output of a body that is a value of a graph around it, or an empty string. onnxruntime refuses
            such a body, and onnx-ir would read the output as a new value.
        sparse_initializer: The name of a sparse initializer of any graph, or an empty string.
    """

    is_sorted: bool = True
    data_files: set[str] = field(default_factory=set)
    has_negative_sizes: bool = False
    outer_output: str = ""
    sparse_initializer: str = ""


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
    _check_text("the model", (proto.producer_name, proto.producer_version, proto.domain, proto.doc_string))
    _check_imports("the model", proto.opset_import)
    _check_metadata("the model", proto.metadata_props)
    findings = Findings()
    _check_graph(proto.graph, (), findings)
    for function in proto.functions:
        _check_function(function, findings)
    check_calls(proto.functions)
    _refuse_shadowed_operators(proto)
    return findings


def _check_function(function: onnx.FunctionProto, findings: Findings) -> None:
    owner = f"function {function.name!r}"
    names = (*function.input, *function.output, *function.attribute)
    _check_text(owner, (function.name, function.domain, function.overload, function.doc_string, *names))
    _check_imports(owner, function.opset_import)
    _check_metadata(owner, function.metadata_props)
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
    _check_text(owner, (graph.name, graph.doc_string))
    _check_metadata(owner, graph.metadata_props)
    for value in (*graph.input, *graph.value_info, *graph.output):
        _check_value(value, owner, findings)
    for tensor in graph.initializer:
        _check_tensor(tensor, owner, findings)
    for sparse in graph.sparse_initializer:
        _check_sparse(sparse, owner, findings)
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
        _check_text(label, (node.name, node.op_type, node.domain, node.overload, node.doc_string, *inputs, *outputs))
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
    _check_metadata(owner, node.metadata_props)
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
    _check_text(owner, (attribute.name, attribute.ref_attr_name, attribute.doc_string))
    if attribute.type not in _ATTRIBUTE_TYPES:
        raise ModelError(
            f"{owner} has attribute {attribute.name!r} of type {attribute.type}, which ONNX does not define."
        )
    if attribute.ref_attr_name and attribute.type in (_ATTRIBUTE.GRAPH, _ATTRIBUTE.GRAPHS):
        raise ModelError(
            f"{owner} has attribute {attribute.name!r}, a graph that the call of a function sets: not supported."
        )
    value_field = None if attribute.ref_attr_name else _VALUE_FIELDS.get(attribute.type)
    if value_field is not None and not attribute.HasField(value_field):
        type_name = _ATTRIBUTE.AttributeType.Name(attribute.type)
        raise ModelError(f"{owner} has attribute {attribute.name!r} of type {type_name} without a value.")
    for graph in graphs_of(attribute):
        _check_graph(graph, outer, findings)
    for tensor in (*_field_if_set(attribute, "t"), *attribute.tensors):
        _check_tensor(tensor, owner, findings)
    for sparse in (*_field_if_set(attribute, "sparse_tensor"), *attribute.sparse_tensors):
        _check_sparse(sparse, owner, findings)
    for type_proto in (*_field_if_set(attribute, "tp"), *attribute.type_protos):
        _check_type(type_proto, f"attribute {attribute.name!r} of {owner}", findings)


def _field_if_set(attribute: onnx.AttributeProto, name: str) -> tuple[Any, ...]:
    """Return `(message,)` if a field is set, otherwise `()`. Protobuf reads an unset field as an empty message."""
    return (getattr(attribute, name),) if attribute.HasField(name) else ()


def _check_value(value: onnx.ValueInfoProto, owner: str, findings: Findings) -> None:
    _check_text(owner, (value.name, value.doc_string))
    if value.metadata_props:
        _check_metadata(f"value {value.name!r}", value.metadata_props)
    if value.HasField("type"):
        _check_type(value.type, f"value {value.name!r}", findings)


def _check_type(type_proto: onnx.TypeProto, owner: str, findings: Findings) -> None:
    """Check a type. Record in `findings` if the type has a negative size."""
    kind = type_proto.WhichOneof("value")
    _check_text(owner, (type_proto.denotation,))
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor_type = getattr(type_proto, kind)
        _check_element_type(tensor_type.elem_type, owner)
        _check_rank(len(tensor_type.shape.dim), owner)
        for dim in tensor_type.shape.dim:
            _check_text(owner, (dim.dim_param, dim.denotation))
            findings.has_negative_sizes |= dim.dim_value < 0
    elif kind in ("sequence_type", "optional_type"):
        _check_type(getattr(type_proto, kind).elem_type, owner, findings)
    elif kind == "map_type":
        _check_element_type(type_proto.map_type.key_type, owner)
        _check_type(type_proto.map_type.value_type, owner, findings)


def _check_imports(owner: str, imports: Sequence[onnx.OperatorSetIdProto]) -> None:
    """Check that versions are in range, and that ONNX's operators are imported in one version."""
    _check_text(owner, [entry.domain for entry in imports])
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
    return f"{proto_node_name(node)!r} ({node.op_type})"


def _check_tensor(tensor: onnx.TensorProto, owner: str, findings: Findings) -> None:
    """Check a tensor and update `findings`. In messages, `owner` names the graph, function or node of the tensor."""
    _check_text(owner, (tensor.name, tensor.doc_string))
    _check_metadata(owner, tensor.metadata_props)
    label = f"tensor {tensor.name!r}" if tensor.name else f"a tensor of {owner}"
    element, dims = tensor.data_type, tensor.dims[:]
    if dims and min(dims) < 0:
        raise ModelError(f"{label} has a negative dimension in {dims}.")
    _check_element_type(element, label)
    if element == onnx.TensorProto.UNDEFINED:
        raise ModelError(f"{label} has no element type.")
    _check_rank(len(dims), label)
    byte_count = prod(dims) * BITS[element] // 8
    if byte_count >= _MAX_BYTES:
        raise ModelError(f"{label} of shape {dims} is larger than any file.")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        findings.data_files.add(_check_location(tensor, label))
    elif byte_count <= _MAX_CHECKED_BYTES:
        _check_data(tensor, label, element, dims)


def _check_data(tensor: onnx.TensorProto, label: str, element: int, dims: list[int]) -> None:
    """Check the length of the data against the element type and the shape, and refuse strings as raw data.

    A tensor without its data passes here. The error is reported when the tensor is read.
    """
    count = prod(dims)
    if tensor.HasField("raw_data"):
        if element == onnx.TensorProto.STRING:
            raise ModelError(f"{label} holds strings as raw data, which ONNX forbids.")
        # Elements of less than a byte are packed, and the last byte may be partly filled, so round up.
        length, expected, unit = len(tensor.raw_data), -(-count * BITS[element] // 8), "bytes"
    elif BITS[element] < 8:
        return  # several of these elements share an entry of `int32_data`, so its length is not compared
    else:
        field_name, width = _DATA_FIELDS.get(element, ("int32_data", 1))
        length, expected, unit = len(getattr(tensor, field_name)), count * width, "entries"
    if length and length != expected:
        raise ModelError(
            f"{label} holds {length} {unit}, but shape {dims} of type {ElementType(element).name} needs {expected}."
        )


def _check_location(tensor: onnx.TensorProto, label: str) -> str:
    """Check the file name, offset and length of a tensor with external data, and return the file name."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    _check_text(label, (*entries, *entries.values()))
    location: str = entries.get("location", "")
    if not location:
        raise ModelError(f"{label} is stored in an external file that it does not name.")
    if leaves_folder(location):
        raise ModelError(f"{label} is stored at {location!r}, which leaves the model's folder.")
    for key in ("offset", "length"):
        number = entries.get(key, "0")
        # Python refuses to parse a number of thousands of digits.
        if not number.isdecimal() or len(number) > _MAX_DIGITS or int(number) >= _MAX_BYTES:
            raise ModelError(
                f"{label} has {number!r} as the {key} of its external data, which must be a size in bytes."
            )
    return location


def leaves_folder(location: str) -> bool:
    """Return whether the path of a data file may lead out of the model's folder on some system, or contains NUL."""
    path = PureWindowsPath(location)  # also reads POSIX paths: `/a` has a `root`, but no `drive`
    return bool(path.drive or path.root) or ".." in path.parts or "\0" in location


def _check_sparse(sparse: onnx.SparseTensorProto, owner: str, findings: Findings) -> None:
    """Check the two tensors of a sparse tensor."""
    _check_tensor(sparse.values, owner, findings)
    _check_tensor(sparse.indices, owner, findings)


def _check_rank(rank: int, owner: str) -> None:
    """Check that a NumPy array can have this number of axes. `owner` names the tensor or value, for the message."""
    if rank > MAX_AXES:
        raise ModelError(f"{owner} has {rank} axes, more than the {MAX_AXES} that an array can have.")


def _check_element_type(number: int, owner: str) -> None:
    """Check the number of an element type; UNDEFINED passes. `owner` names the tensor or value, for the message."""
    if number not in BITS:
        raise ModelError(f"{owner} has element type {number}, which ONNX does not define.")


def _check_metadata(owner: str, entries: Any) -> None:
    """Check that keys and values of `metadata_props` are UTF-8."""
    for entry in entries:
        _check_text(owner, (entry.key, entry.value))


def _check_text(owner: str, texts: Iterable[str]) -> None:
    """Check that all texts are UTF-8. Protobuf returns any other text as bytes."""
    for text in texts:
        if isinstance(text, bytes):
            raise ModelError(f"{owner} has text that is not UTF-8: {text!r}.")

"""The check that an ONNX model is well-formed, on which all later stages rely.

Of the operators only Constant is checked against its specification, because it is read everywhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import onnx

from onnx_ops.model.domains import STANDARD_DOMAINS, STRIDED_SLICE_DOMAIN, usual_name
from onnx_ops.model.element_type import BITS, ElementType
from onnx_ops.model.nodes import MAX_AXES
from onnx_ops.model.proto_walk import all_nodes, graphs_of, model_nodes
from sliceport.errors import ModelError

_EXTERNAL = onnx.TensorProto.EXTERNAL
REPLACEABLE_VERSION = 4
"""The first version of the format in which a caller may replace initializers that are inputs too."""
_MAX_BYTES = 2**63
_MAX_DIGITS = 19  # of _MAX_BYTES; Python refuses to parse thousands
_MAX_VERSION = 2**31 - 1
"""The largest version of an operator set."""
_MAX_CHECKED_BYTES = 2**20
"""Larger tensors are weights. Their data are not checked, because protobuf copies them to return their length."""
_UNDEFINED, _STRING = onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING
_ATTRIBUTE = onnx.AttributeProto
_TYPES = frozenset(_ATTRIBUTE.AttributeType.values()) - {_ATTRIBUTE.UNDEFINED}
_VALUE_FIELDS = {
    _ATTRIBUTE.TENSOR: "t",
    _ATTRIBUTE.GRAPH: "g",
    _ATTRIBUTE.SPARSE_TENSOR: "sparse_tensor",
    _ATTRIBUTE.TYPE_PROTO: "tp",
}
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
"""The field that lists the elements of a tensor without raw data, and the entries per element; others: `int32_data`."""
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


@dataclass
class Findings:
    """Properties of a well-formed model.

    Attributes:
        is_sorted: Whether every node comes after the nodes that it reads from.
        data_files: The external data files, as the model names them.
        has_functions: Whether it has functions that must be inlined to be read.
        has_negative_sizes: Whether the declared shape of a value has a size below 0.
        is_plain: Whether all values and constants are dense tensors, constants without metadata, and all text in
            attributes is UTF-8.
    """

    is_sorted: bool = True
    data_files: set[str] = field(default_factory=set)
    has_functions: bool = False
    has_negative_sizes: bool = False
    is_plain: bool = True

    @property
    def needs_onnx_ir(self) -> bool:
        """Whether the model must be read by onnx-ir: it has functions, unsorted graphs, or more than dense tensors."""
        return self.has_functions or not (self.is_sorted and self.is_plain)

    @property
    def has_external_data(self) -> bool:
        """Whether some tensor is stored in another file."""
        return bool(self.data_files)


def check_proto(proto: onnx.ModelProto) -> Findings:
    """Check a model: text is UTF-8, names are defined once, types exist, data fit their shapes, paths are safe.

    Raises:
        ModelError: The model breaks one of these rules.
    """
    # Protobuf parses nearly any bytes, so that these two fields tell a model from another file.
    if proto.ir_version < 1 or not proto.HasField("graph"):
        raise ModelError("it holds no graph, so it is not an ONNX model.")
    if not proto.opset_import and proto.ir_version >= 3:
        raise ModelError("it imports no operator set.")
    _check_text("the model", (proto.producer_name, proto.producer_version, proto.domain, proto.doc_string))
    _check_imports("the model", proto.opset_import)
    _check_metadata("the model", proto.metadata_props)
    findings = Findings()
    _check_graph(proto.graph, (), findings)
    for function in proto.functions:
        _check_function(function, findings)
        # A node of ov_ext::StridedSlice is read as an operator and needs no function.
        is_operator = (function.domain, function.name, function.overload) == (STRIDED_SLICE_DOMAIN, "StridedSlice", "")
        findings.has_functions |= not is_operator
    _check_calls(proto.functions)
    _check_operators(proto)
    return findings


def _check_function(function: onnx.FunctionProto, findings: Findings) -> None:
    where = f"function {function.name!r}"
    names = (*function.input, *function.output, *function.attribute)
    _check_text(where, (function.name, function.domain, function.overload, function.doc_string, *names))
    _check_imports(where, function.opset_import)
    _check_metadata(where, function.metadata_props)
    for value in function.value_info:
        _check_value(value, where, findings)
    for attribute in function.attribute_proto:
        _check_attribute(attribute, where, (), findings)
    defined = set(function.input)
    _check_nodes(function.node, defined, (), where, findings)
    _check_outputs(function.output, (defined,), where)


def _check_operators(proto: onnx.ModelProto) -> None:
    """Check that no node calls a function that has the name of a standard operator.

    onnx's inference and reference, onnxruntime and OpenVINO all run such a node as the operator.
    """
    versions = [entry.version for entry in proto.opset_import if entry.domain in STANDARD_DOMAINS]
    functions = [f for f in proto.functions if f.domain in STANDARD_DOMAINS and not f.overload]
    shadowing = {f.name for f in functions if any(onnx.defs.has(f.name, version, "") for version in versions)}
    for node in model_nodes(proto) if shadowing else ():
        if node.op_type in shadowing and node.domain in STANDARD_DOMAINS and not node.overload:
            raise ModelError(f"function {node.op_type!r} has the name of one of ONNX's operators.")


_Scopes = tuple[set[str], ...]
"""The names that a graph can read. The sets are not joined, which would be quadratic for many nested graphs."""
_Key = tuple[str, str, str]


def _key(domain: str, name: str, overload: str) -> _Key:
    return usual_name(domain), name, overload


def _check_calls(functions: Sequence[onnx.FunctionProto]) -> None:
    """Check that no function is defined twice or calls itself, directly or through others."""
    calls: dict[_Key, set[_Key]] = {}
    for function in functions:
        key = _key(function.domain, function.name, function.overload)
        if key in calls:
            raise ModelError(f"function {function.name!r} of domain {function.domain!r} is defined twice.")
        calls[key] = {_key(node.domain, node.op_type, node.overload) for node in all_nodes(function)}
    try:
        TopologicalSorter({key: called & calls.keys() for key, called in calls.items()}).prepare()
    except CycleError as error:
        raise ModelError(f"function {min(error.args[1])[1]!r} calls itself, directly or through others.") from None


def _check_graph(graph: onnx.GraphProto, outer: _Scopes, findings: Findings) -> None:
    where = f"graph {graph.name!r}" if graph.name else "the graph"
    _check_text(where, (graph.name, graph.doc_string))
    _check_metadata(where, graph.metadata_props)
    for value in (*graph.input, *graph.value_info, *graph.output):
        _check_value(value, where, findings)
    for tensor in graph.initializer:
        _check_tensor(tensor, where, findings)
    for sparse in graph.sparse_initializer:
        _check_sparse(sparse, where, findings)
    inputs = [value.name for value in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    for kind, names in (("input", inputs), ("initializer", initializers)):
        if "" in names:
            raise ModelError(f"{where} has an {kind} without a name.")
        if len(set(names)) < len(names):
            repeated = next(name for name, times in Counter(names).items() if times > 1)
            raise ModelError(f"{where} defines {kind} {repeated!r} twice.")
    _check_input_sizes(graph, findings)
    defined = {*inputs, *initializers, *(sparse.values.name for sparse in graph.sparse_initializer)}
    _check_nodes(graph.node, defined, outer, where, findings)
    _check_outputs([value.name for value in graph.output], (defined, *outer), where)


def _check_input_sizes(graph: onnx.GraphProto, findings: Findings) -> None:
    """Check that no input has a negative size. Other values may, because some exporters write open sizes so."""
    for value in graph.input:
        for axis, size in _negative_sizes(value):
            raise ModelError(f"input {value.name!r} has dimension {size} on axis {axis}, below 0.")
    findings.has_negative_sizes |= any(any(_negative_sizes(value)) for value in (*graph.value_info, *graph.output))


def _negative_sizes(value: onnx.ValueInfoProto) -> Iterator[tuple[int, int]]:
    dims = value.type.tensor_type.shape.dim
    return ((axis, dim.dim_value) for axis, dim in enumerate(dims) if dim.dim_value < 0)


def _check_outputs(names: Iterable[str], scopes: _Scopes, where: str) -> None:
    for name in names:
        if not name:
            raise ModelError(f"{where} has an output without a name.")
        if not _is_defined(name, scopes):
            raise ModelError(f"{where} has output {name!r}, which nothing in it defines.")


def _is_defined(name: str, scopes: _Scopes) -> bool:
    return any(name in scope for scope in scopes)


def _check_nodes(
    nodes: Sequence[onnx.NodeProto], defined: set[str], outer: _Scopes, where: str, findings: Findings
) -> None:
    """Check the nodes of a graph or function, and add their outputs to `defined`."""
    outputs_of_all: set[str] = set()
    label = f"a node of {where}"
    node_values: list[tuple[onnx.NodeProto, list[str], list[str]]] = []
    for node in nodes:
        inputs, outputs = node.input[:], node.output[:]  # copies, because iterating over protobuf's lists is slower
        _check_text(label, (node.name, node.op_type, node.domain, node.overload, node.doc_string, *inputs, *outputs))
        for name in outputs:
            if name and (name in outputs_of_all or name in defined):
                raise ModelError(
                    f"{where} defines value {name!r} twice; node {_describe(node)} is the second to do so."
                )
            outputs_of_all.add(name)
        node_values.append((node, inputs, outputs))
    defined.add("")  # an input that is left out
    for node, inputs, outputs in node_values:
        for name in () if defined.issuperset(inputs) else inputs:
            if name not in defined and not _is_defined(name, outer):
                if name not in outputs_of_all:
                    raise ModelError(f"node {_describe(node)} reads value {name!r}, which nothing defines.")
                findings.is_sorted = False
        if node.attribute or node.metadata_props:
            _check_attributes(node, (defined, outputs_of_all, *outer), findings)
        defined.update(outputs)


def _check_attributes(node: onnx.NodeProto, outer: _Scopes, findings: Findings) -> None:
    where = f"node {_describe(node)}"
    _check_metadata(where, node.metadata_props)
    if len({attribute.name for attribute in node.attribute}) < len(node.attribute):
        name, _ = Counter(attribute.name for attribute in node.attribute).most_common(1)[0]
        raise ModelError(f"{where} has attribute {name!r} twice.")
    is_constant = node.op_type == "Constant" and node.domain in STANDARD_DOMAINS
    for attribute in node.attribute:
        _check_attribute(attribute, where, outer, findings)
        expected = _CONSTANTS.get(attribute.name) if is_constant and not attribute.ref_attr_name else None
        if expected not in (None, attribute.type):
            kinds = [_ATTRIBUTE.AttributeType.Name(kind) for kind in (attribute.type, expected)]
            raise ModelError(f"{where} has a {attribute.name} of type {kinds[0]}, which must be {kinds[1]}.")


def _check_attribute(attribute: onnx.AttributeProto, where: str, outer: _Scopes, findings: Findings) -> None:
    _check_text(where, (attribute.name, attribute.ref_attr_name, attribute.doc_string))
    if attribute.type not in _TYPES:
        raise ModelError(
            f"{where} has attribute {attribute.name!r} of type {attribute.type}, which ONNX does not define."
        )
    if attribute.ref_attr_name and attribute.type in (_ATTRIBUTE.GRAPH, _ATTRIBUTE.GRAPHS):
        raise ModelError(
            f"{where} has attribute {attribute.name!r}, a graph that the call of a function sets: not supported."
        )
    if attribute.type in (_ATTRIBUTE.SPARSE_TENSOR, _ATTRIBUTE.SPARSE_TENSORS):
        findings.is_plain = False
    value_field = None if attribute.ref_attr_name else _VALUE_FIELDS.get(attribute.type)
    if value_field is not None and not attribute.HasField(value_field):
        kind = _ATTRIBUTE.AttributeType.Name(attribute.type)
        raise ModelError(f"{where} has attribute {attribute.name!r} of type {kind} without a value.")
    for graph in graphs_of(attribute):
        _check_graph(graph, outer, findings)
    for tensor in (*_set_field(attribute, "t"), *attribute.tensors):
        _check_tensor(tensor, where, findings)
    for sparse in (*_set_field(attribute, "sparse_tensor"), *attribute.sparse_tensors):
        _check_sparse(sparse, where, findings)
    for type_proto in (*_set_field(attribute, "tp"), *attribute.type_protos):
        _check_type(type_proto, f"attribute {attribute.name!r} of {where}", findings)


def _set_field(attribute: onnx.AttributeProto, name: str) -> tuple[Any, ...]:
    return (getattr(attribute, name),) if attribute.HasField(name) else ()


def _check_value(value: onnx.ValueInfoProto, where: str, findings: Findings) -> None:
    _check_text(where, (value.name, value.doc_string))
    if value.metadata_props:
        _check_metadata(f"value {value.name!r}", value.metadata_props)
    if value.HasField("type"):
        _check_type(value.type, f"value {value.name!r}", findings)


def _check_type(type_proto: onnx.TypeProto, where: str, findings: Findings) -> None:
    kind = type_proto.WhichOneof("value")
    findings.is_plain &= kind in ("tensor_type", None)
    _check_text(where, (type_proto.denotation,))
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor_type = getattr(type_proto, kind)
        _check_element(tensor_type.elem_type, where)
        _check_rank(len(tensor_type.shape.dim), where)
        for dim in tensor_type.shape.dim:
            _check_text(where, (dim.dim_param, dim.denotation))
    elif kind in ("sequence_type", "optional_type"):
        _check_type(getattr(type_proto, kind).elem_type, where, findings)
    elif kind == "map_type":
        _check_element(type_proto.map_type.key_type, where)
        _check_type(type_proto.map_type.value_type, where, findings)


def _check_rank(rank: int, where: str) -> None:
    if rank > MAX_AXES:
        raise ModelError(f"{where} has {rank} axes, more than the {MAX_AXES} that an array can have.")


def _check_element(number: int, where: str) -> None:
    if number not in BITS:
        raise ModelError(f"{where} has element type {number}, which ONNX does not define.")


def _check_sparse(sparse: onnx.SparseTensorProto, where: str, findings: Findings) -> None:
    findings.is_plain = False
    _check_tensor(sparse.values, where, findings)
    _check_tensor(sparse.indices, where, findings)


def _check_tensor(tensor: onnx.TensorProto, where: str, findings: Findings) -> None:
    _check_text(where, (tensor.name, tensor.doc_string))
    if tensor.metadata_props:
        findings.is_plain = False
        _check_metadata(where, tensor.metadata_props)
    try:
        _check_contents(tensor, tensor.data_type, tensor.dims[:], findings)
    except ModelError as error:
        label = f"tensor {tensor.name!r}" if tensor.name else f"a tensor of {where}"
        raise ModelError(f"{label} {error}") from None


def _check_contents(tensor: onnx.TensorProto, element: int, dims: list[int], findings: Findings) -> None:
    """Check the type, shape and data of a tensor.

    Raises:
        ModelError: A rule is broken. The caller puts the tensor's name in front of the message.
    """
    if dims and min(dims) < 0:
        raise ModelError(f"has a negative dimension in {dims}.")
    if element not in BITS:
        raise ModelError(f"has element type {element}, which ONNX does not define.")
    if element == _UNDEFINED:
        raise ModelError("has no element type.")
    if len(dims) > MAX_AXES:
        raise ModelError(f"has {len(dims)} axes, more than the {MAX_AXES} that an array can have.")
    count = prod(dims)
    bytes_ = count * BITS[element] // 8
    if bytes_ >= _MAX_BYTES:
        raise ModelError(f"has shape {dims}, which is larger than any file.")
    if tensor.data_location == _EXTERNAL:
        findings.data_files.add(_check_location(tensor))
    elif bytes_ <= _MAX_CHECKED_BYTES:
        _check_data(tensor, element, count, dims)


def _check_data(tensor: onnx.TensorProto, element: int, count: int, dims: list[int]) -> None:
    """Check that the data have the length of the shape. A tensor without data passes here and fails when it is read."""
    if tensor.HasField("raw_data"):
        if element == _STRING:
            raise ModelError("holds strings as raw data, which ONNX forbids.")
        size, expected, unit = len(tensor.raw_data), -(-count * BITS[element] // 8), "bytes"
    elif BITS[element] < 8:
        return  # several of these elements share an entry of `int32_data`, so its length is not compared
    else:
        field, width = _DATA_FIELDS.get(element, ("int32_data", 1))
        size, expected, unit = len(getattr(tensor, field)), count * width, "entries"
    if size and size != expected:
        raise ModelError(f"holds {size} {unit}, but its shape {dims} of {ElementType(element).name} takes {expected}.")


def _check_location(tensor: onnx.TensorProto) -> str:
    """Check where an external tensor is stored, and return the name of its file."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    # protobuf returns a string that is not UTF-8 as bytes.
    if bytes in set(map(type, (*entries, *entries.values()))):
        raise ModelError("is stored in a file whose name is not UTF-8.")
    location: str = entries.get("location", "")
    if not location:
        raise ModelError("is stored in an external file that it does not name.")
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    if windows.drive or windows.root or posix.is_absolute() or ".." in windows.parts or "\0" in location:
        raise ModelError(f"is stored at {location!r}, which leaves the model's folder.")
    for key in ("offset", "length"):
        number = entries.get(key, "0")
        if not number.isdecimal() or len(number) > _MAX_DIGITS or int(number) >= _MAX_BYTES:
            raise ModelError(f"has {number!r} as the {key} of its external data, which must be a size in bytes.")
    return location


def check_data_files(findings: Findings, folder: str | os.PathLike[str]) -> None:
    """Check that external data files are regular files: reading a pipe or a device may never end.

    Args:
        findings: The findings of `check_proto`.
        folder: The folder of the model.

    Raises:
        ModelError: A file exists and is not a regular file.
    """
    for name in sorted(findings.data_files):
        file = os.path.join(folder, name)
        if os.path.exists(file) and not os.path.isfile(file):
            raise ModelError(f"its data file {name!r} is not a regular file.")


def _check_imports(where: str, imports: Sequence[onnx.OperatorSetIdProto]) -> None:
    _check_text(where, [entry.domain for entry in imports])
    versions = {entry.version for entry in imports if entry.domain in STANDARD_DOMAINS}
    if len(versions) > 1:
        raise ModelError(f"{where} imports versions {', '.join(map(str, sorted(versions)))} of ONNX's operators.")
    for entry in imports:
        if entry.domain in STANDARD_DOMAINS and entry.version < 1:
            raise ModelError(f"{where} imports version {entry.version} of ONNX's operators; the first is 1.")
        if not 0 <= entry.version <= _MAX_VERSION:
            raise ModelError(f"{where} imports invalid version {entry.version} of domain {entry.domain!r}.")


def _check_metadata(where: str, entries: Any) -> None:
    for entry in entries:
        _check_text(where, (entry.key, entry.value))


def _check_text(where: str, texts: Iterable[str]) -> None:
    """Check that strings are UTF-8: protobuf returns others as bytes."""
    if bytes in map(type, texts):
        text = next(text for text in texts if isinstance(text, bytes))
        raise ModelError(f"{where} has text that is not UTF-8: {text!r}.")


def _describe(node: onnx.NodeProto) -> str:
    return f"{node.name or next(iter(node.output), '')!r} ({node.op_type})"

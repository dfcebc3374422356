"""Reading of a ModelProto into a view, in place: functions are inlined.

onnx's own inliner is not used: version 1.23 ignores the default attributes of functions, loses an output that is an
input of its function, and leaves calls of functions that import another opset version.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, zip_longest

import onnx

from onnx_ops.model.check import REPLACEABLE_VERSION, check_calls
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN, usual_name
from onnx_ops.model.nodes import is_slicing
from onnx_ops.model.proto_model import ORIGIN, Graph, Node, ProtoModel, Value
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import (
    all_graphs,
    all_nodes,
    graphs_of,
    mark_node,
    mark_written_names,
    proto_node_name,
    resolve_references,
)
from onnx_ops.model.views import GRAPH, GRAPHS
from sliceport.errors import ModelError

_Key = tuple[str, str, str]
"""The domain, name and overload of a function, and of each node that calls it."""


def read_view(proto: onnx.ModelProto, base_dir: str = "", *, inlines: bool = True) -> ProtoModel:
    """Return a view of a model, which is not changed.

    A node of `ov_ext::StridedSlice` is read as an operator, so its function is not inlined.

    Args:
        proto: A well-formed model with sorted nodes; see `Findings.is_sorted`.
        base_dir: The folder of its external data files.
        inlines: Whether to inline functions. Otherwise, nodes that call functions stay.

    Raises:
        ModelError: A function cannot be inlined (say, it imports another opset version than the model).
    """
    reader = _Reader(proto, base_dir, inlines=inlines)
    functions = () if inlines else proto.functions
    return ProtoModel(reader.read_graph(proto.graph, None), reader.opset_imports, proto.ir_version, functions)


def inline_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model without functions. Nodes of `ov_ext::StridedSlice` stay. See `read_view`."""
    view = read_view(proto)
    written = onnx.GraphProto()
    view.graph.write_nodes_into(written)
    for node in all_nodes(written):
        mark_node(node, ORIGIN, "")
    inlined = onnx.ModelProto()
    inlined.CopyFrom(proto)
    del inlined.functions[:], inlined.opset_import[:], inlined.graph.node[:]
    for domain, version in view.opset_imports.items():
        inlined.opset_import.add(domain=domain, version=version)
    inlined.graph.node.extend(written.node)
    declared = {info.name for info in proto.graph.value_info}
    new_types = (info for info in written.value_info if info.HasField("type") and info.name not in declared)
    inlined.graph.value_info.extend(new_types)
    return inlined


@dataclass
class _Scope:
    """The values that are visible in a graph or in a call of a function.

    Attributes:
        types: The declared types of the values that nodes compute, by name.
        attributes: The attributes of the innermost call of a function, by name; None outside functions.
        values: The values by name; the first map has those of the graph or function itself. An input that the call
            leaves out is None.
        results: The values of the call, by the names that the outputs have in the function.
    """

    types: Mapping[str, onnx.TypeProto]
    attributes: Mapping[str, onnx.AttributeProto] | None = None
    values: ChainMap[str, Value | None] = field(default_factory=ChainMap)
    results: Mapping[str, Value] = field(default_factory=dict)


_Labelled = tuple[onnx.NodeProto, str, Sequence[str], _Scope]
"""A node, its name and the names of its outputs in the view, and the scope of the node."""


class _Names:
    """Names of the nodes or of the values of a model."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)
        self._numbers: dict[str, Iterator[int]] = defaultdict(lambda: count(2))

    def add(self, name: str) -> str:
        """Add a name to the used names and return it, with a number at its end if it is already used."""
        candidate = name
        while candidate in self._used:
            candidate = f"{name}_{next(self._numbers[name])}"
        self._used.add(candidate)
        return candidate


class _Reader:
    """Reads the graphs of one model. The names in functions become unique, as onnx-ir's inliner makes them."""

    def __init__(self, proto: onnx.ModelProto, base_dir: str, *, inlines: bool) -> None:
        self._base_dir = base_dir
        self._ir_version = proto.ir_version
        self.opset_imports = {usual_name(entry.domain): entry.version for entry in proto.opset_import}
        self._functions: dict[_Key, onnx.FunctionProto] = {}
        if proto.functions and inlines:
            check_calls(proto.functions)
            self._functions = _prepare_functions(proto)
            graphs = list(all_graphs(proto.graph))
            nodes = [node for graph in graphs for node in graph.node]
            given = (value.name for graph in graphs for value in (*graph.input, *graph.initializer))
            self._value_names = _Names([*given, *(name for node in nodes for name in node.output)])
            self._node_names = _Names(node.name for node in nodes)

    def read_graph(self, proto: onnx.GraphProto, outer: _Scope | None) -> Graph:
        """Return a view of a graph. `outer` is the scope of the node around it; None for the main graph."""
        graph = Graph(proto.name)
        scope = _Scope({info.name: info.type for info in proto.value_info})
        if outer is not None:
            scope.attributes, scope.values = outer.attributes, outer.values.new_child()
        own = scope.values.maps[0]
        for info in proto.input:
            value = own[info.name] = Value(self._name_value(info.name, scope), info.type)
            value.is_input = True
            graph.inputs.append(value)
        # In early IR versions, each initializer of the main graph is also an input, but is still a constant.
        inputs_are_constant = outer is None and self._ir_version < REPLACEABLE_VERSION
        for tensor in proto.initializer:
            given = own.get(tensor.name)
            if given is not None and not inputs_are_constant:
                continue  # the initializer is only a default: see `without_defaults`
            declared = scope.types.get(tensor.name, tensor)
            value = given or Value(self._name_value(tensor.name, scope), declared)
            value.const_value = Tensor(tensor, self._base_dir)
            own[tensor.name] = graph.initializers[value.name] = value
        for sparse in proto.sparse_initializer:  # their elements are not read
            declared = onnx.TensorProto(data_type=sparse.values.data_type, dims=sparse.dims)
            own.setdefault(sparse.values.name, Value(self._name_value(sparse.values.name, scope), declared))
        self._read_nodes(proto.node, graph, scope)
        for info in proto.output:
            value = own.get(info.name) or Value(info.name)  # a new Value for a name from an outer graph
            value.is_output = True
            if not value.is_input:  # an input keeps its own type
                value.declared = info.type
            graph.outputs.append(value)
        return graph

    def _name_value(self, name: str, scope: _Scope) -> str:
        """Return the name of a value in the view. An empty name, of a left-out output, stays empty."""
        return self._value_names.add(name) if name and scope.attributes is not None else name

    def _label(self, nodes: Sequence[onnx.NodeProto], scope: _Scope) -> list[_Labelled]:
        """Return the nodes of a graph or function, with the names that they and their outputs have in the view."""
        labelled: list[_Labelled] = []
        for node in nodes:
            name = node.name if scope.attributes is None else self._node_names.add(node.name or "node")
            labelled.append((node, name, [self._name_value(output, scope) for output in node.output[:]], scope))
        return labelled

    def _read_nodes(self, nodes: Sequence[onnx.NodeProto], graph: Graph, scope: _Scope) -> None:
        """Add the nodes of a graph to its view. The nodes of a function replace each call of it."""
        pending = self._label(nodes, scope)[::-1]
        while pending:
            proto, name, outputs, scope = pending.pop()
            key = (usual_name(proto.domain), proto.op_type, proto.overload) if self._functions else None
            if key in self._functions:
                pending += self._enter(self._functions[key], proto, outputs, scope)[::-1]
                continue
            if scope.attributes is not None and any(attribute.ref_attr_name for attribute in proto.attribute):
                proto = resolve_references(proto, scope.attributes)
            self._read_node(Node(proto, name, graph, self._base_dir), outputs, scope)

    def _read_node(self, node: Node, output_names: Sequence[str], scope: _Scope) -> None:
        """Add a node to its graph. Set its inputs and outputs, and read its subgraphs."""
        proto, own = node.proto, scope.values.maps[0]  # the ChainMap is slower than its first map
        for name in proto.input[:]:  # a list, which is faster to iterate over than protobuf's container
            value = own.get(name) or scope.values.get(name)
            if value is not None:
                value.readers.append(node)
            node.inputs.append(value)
        for name, label in zip(proto.output[:], output_names, strict=True):
            value = scope.results.get(name) or Value(label)
            value.producer_node = node
            value.declared = value.declared or scope.types.get(name)
            if name:
                own[name] = value
            node.outputs.append(value)
        if node.graph is not None:
            node.graph.nodes.append(node)
        if any(attribute.type in (GRAPH, GRAPHS) for attribute in proto.attribute):
            bodies = {each.name: [self.read_graph(body, scope) for body in graphs_of(each)] for each in proto.attribute}
            node.read_attributes(bodies)

    def _enter(
        self, function: onnx.FunctionProto, call: onnx.NodeProto, output_names: Sequence[str], scope: _Scope
    ) -> list[_Labelled]:
        """Return the nodes that replace a call of a function. Add the outputs of the call to `scope`."""
        self._merge_imports(function)
        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise _refuse(function, "a call has more inputs or outputs than the function")
        call = resolve_references(call, scope.attributes or {})
        inner = _Scope({info.name: info.type for info in function.value_info})
        inner.attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        inputs = [scope.values.get(name) for name in call.input]
        inner.values.update(zip_longest(function.input, inputs))
        results: dict[str, Value] = {}
        for name, written, label in zip(function.output, call.output, output_names, strict=False):
            if written:
                value = scope.results.get(written) or Value(label, scope.types.get(written))
                results[name] = scope.values[written] = value
        inner.results = results
        return self._label(function.node, inner)

    def _merge_imports(self, function: onnx.FunctionProto) -> None:
        """Add the imports of a function to those of the model."""
        for entry in function.opset_import:
            domain = usual_name(entry.domain)
            version = self.opset_imports.setdefault(domain, entry.version)
            if version != entry.version:
                raise _refuse(
                    function, f"it imports version {entry.version} of domain {domain!r}, the model version {version}"
                )


def _refuse(function: onnx.FunctionProto, reason: str) -> ModelError:
    """Return the error for a function that cannot be inlined."""
    return ModelError(f"a function of the model cannot be inlined (function {function.name!r}: {reason}).")


def _prepare_functions(model: onnx.ModelProto) -> dict[_Key, onnx.FunctionProto]:
    """Return copies of the functions to inline, with origins and written names in the metadata of their nodes.

    Unnamed slicing nodes are named. Symbols are removed from declared types, because the same symbol may stand for
    another size in another call, and in the main graph.
    """
    functions = []
    for written in model.functions:
        function = onnx.FunctionProto()
        function.CopyFrom(written)
        functions.append(function)
        for i, name in enumerate(function.output):
            if name in function.input or name in function.output[:i]:  # then no node, or another output, has the value
                function.output[i] = f"{name} {i}"
                function.node.add(op_type="Identity", input=[name], output=[function.output[i]])
        # Below IR version 10, onnx-ir stores the types of values in functions in the main graph.
        prefix = f"{function.domain}::{function.name}/"
        for info in model.graph.value_info:
            if info.name.startswith(prefix):
                function.value_info.add(name=info.name.removeprefix(prefix), type=info.type)
    mark_written_names(functions)
    for function in functions:
        slicing = filter(is_slicing, all_nodes(function))
        for i, node in enumerate(slicing):
            mark_node(node, ORIGIN, f"{function.domain}:{function.name}:{function.overload}#{i}")
            node.name = node.name or f"{function.name}.{proto_node_name(node)}"
        bodies = all_graphs(*(graph for node in function.node for each in node.attribute for graph in graphs_of(each)))
        infos = [info for body in bodies for info in (*body.input, *body.value_info, *body.output)]
        for info in (*function.value_info, *infos):
            for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
                if dim.dim_param:
                    dim.Clear()
    by_key = {(usual_name(each.domain), each.name, each.overload): each for each in functions}
    by_key.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)
    return by_key

"""A view of a ModelProto, which is read in place, without a copy.

Models with functions, unsorted nodes or values other than dense tensors need the view in `ir_model`: see `Findings`.
onnx-ir takes long to load, and is used here only to read external data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.domains import usual_name
from onnx_ops.model.element_type import BITS, ElementType
from onnx_ops.model.nodes import LARGE_BYTES, MISSING, node_name
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import graphs_of
from onnx_ops.model.read import describe_cause, to_bytes
from onnx_ops.model.views import FLOAT, FLOATS, GRAPH, GRAPHS, INT, INTS, TENSOR, Array, Dims, read_dim
from onnx_ops.model.walk import all_values

_NO_META: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class Symbol:
    """An open size; see `DimView`."""

    value: str | None


Shape = tuple[int | Symbol, ...]


class Attribute:
    """An attribute of a node; see `AttributeView`."""

    __slots__ = ("_base_dir", "_graphs", "_proto", "type")

    def __init__(self, proto: onnx.AttributeProto, base_dir: str, graphs: Sequence[Graph] = ()) -> None:
        self._proto = proto
        self._base_dir = base_dir
        self._graphs = graphs
        self.type: int = proto.type

    @property
    def value(self) -> Any:
        """The graph, the graphs or the tensor of the attribute. Numbers are returned as a tensor.

        Raises:
            TypeError: The attribute has another type, such as a text.
        """
        if self.type in (GRAPH, GRAPHS):
            return self._graphs[0] if self.type == GRAPH else self._graphs
        if self.type == TENSOR:
            return Tensor(self._proto.t, self._base_dir)
        if self.type not in (INT, INTS, FLOAT, FLOATS):
            raise TypeError(f"internal error: attribute {self._proto.name!r} of type {self.type} has no value to read")
        dtype = np.int64 if self.type in (INT, INTS) else np.float32
        array = np.array(helper.get_attribute_value(self._proto), dtype)
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        return Tensor(onnx.TensorProto(data_type=element, dims=array.shape), array=array)

    @property
    def ref_attr_name(self) -> str:
        return self._proto.ref_attr_name

    def as_int(self) -> int:
        return self._proto.i

    def as_ints(self) -> Sequence[int]:
        return tuple(self._proto.ints)

    def as_string(self) -> str:
        return self._proto.s.decode()


class Value:
    """A value; see `ValueView`. Its declared type and shape are read on first use."""

    const_value: Tensor | None = None
    meta = _NO_META
    is_input = False
    is_output = False
    _is_read = False
    _element: int | None = None
    _shape: Shape | None = None

    def __init__(
        self, name: str, producer_node: Node | None = None, declared: onnx.TypeProto | onnx.TensorProto | None = None
    ) -> None:
        self.name = name
        self.producer_node = producer_node
        self.declared = declared  # a declared type, or the tensor of an initializer
        self.readers: list[Node] = []

    @property
    def shape(self) -> Shape | None:
        if not self._is_read:
            self._read_declared()
        return self._shape

    @property
    def element(self) -> int | None:
        if not self._is_read:
            self._read_declared()
        return self._element

    @property
    def dtype(self) -> ElementType | None:
        return None if self.element is None else ElementType(self.element)

    def producer(self) -> Node | None:
        return self.producer_node

    def uses(self) -> bool:
        return bool(self.readers)

    def consumers(self) -> Sequence[Node]:
        return self.readers

    def is_graph_input(self) -> bool:
        return self.is_input

    def is_graph_output(self) -> bool:
        return self.is_output

    def replace_type(self, element: int | None, shape: Shape | None) -> None:
        """Replace the declared element type and shape. None stands for an unknown type or shape."""
        self._element, self._shape, self._is_read = element, shape, True

    def write_into(self, proto: onnx.ValueInfoProto) -> None:
        """Write the value into `proto`, with the type and sizes that are known now."""
        proto.name = self.name
        if self.element is None:
            return
        proto.type.tensor_type.elem_type = self.element
        if self.shape is None:
            return
        proto.type.tensor_type.shape.SetInParent()  # otherwise a scalar, which adds no `dim`, would have no shape
        for size in self.shape:
            dim = proto.type.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            elif size.value is not None:
                dim.dim_param = size.value

    def _read_declared(self) -> None:
        self._is_read = True
        if isinstance(self.declared, onnx.TensorProto):
            self._element, self._shape = self.declared.data_type, tuple(self.declared.dims)
        elif self.declared is not None and self.declared.HasField("tensor_type"):
            tensor = self.declared.tensor_type
            self._element = tensor.elem_type if tensor.HasField("elem_type") else None
            if tensor.HasField("shape"):
                self._shape = _to_shape(tuple([read_dim(dim) for dim in tensor.shape.dim]))


class Node:
    """A node; see `NodeView`."""

    meta = _NO_META
    __slots__ = ("_attributes", "_base_dir", "domain", "graph", "inputs", "name", "op_type", "outputs", "proto")

    def __init__(self, proto: onnx.NodeProto, graph: Graph, base_dir: str) -> None:
        self.proto = proto
        self.graph: Graph | None = graph
        self.name = proto.name
        self.op_type = proto.op_type
        self.domain = usual_name(proto.domain)
        self.inputs: list[Value | None] = []
        self.outputs: list[Value] = []
        self._base_dir = base_dir
        self._attributes: Mapping[str, Attribute] | None = None

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        if self._attributes is None:
            # `_connect` has already read the attributes of all nodes with subgraphs, so this node has no subgraphs.
            self.read_attributes(lambda _: ())
        assert self._attributes is not None
        return self._attributes

    def read_attributes(self, read_graphs: Callable[[onnx.AttributeProto], Sequence[Graph]]) -> None:
        """Read the attributes. `read_graphs` returns views of the graphs in an attribute."""
        self._attributes = {
            proto.name: Attribute(proto, self._base_dir, read_graphs(proto)) for proto in self.proto.attribute
        }

    def write_into(self, proto: onnx.NodeProto) -> None:
        """Write the node into `proto`. See `Graph.write_into` for its subgraphs and external tensors."""
        proto.CopyFrom(self.proto)
        proto.domain = self.domain
        for written, attribute in zip(proto.attribute, self.attributes.values(), strict=True):
            written.ClearField("g")  # the copied graphs lack inferred sizes, so graphs are written anew
            written.ClearField("graphs")
            if attribute.ref_attr_name:
                continue
            if attribute.type == GRAPH:
                attribute.value.write_into(written.g)
            elif attribute.type == GRAPHS:
                for graph in attribute.value:
                    graph.write_into(written.graphs.add())
            elif attribute.type == TENSOR:
                tensor = attribute.value
                tensor.try_to_load()
                written.t.CopyFrom(tensor.raw)


@dataclass(slots=True, eq=False)
class Graph:
    """A graph; see `GraphView`."""

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    initializers: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self.nodes if node.graph is not None)  # without folded nodes

    def write_into(self, proto: onnx.GraphProto) -> None:
        """Write the graph into `proto`, with the types and sizes known now. Small external tensors are embedded."""
        proto.name = "graph"  # any name: onnx requires one
        for value in self.inputs:
            value.write_into(proto.input.add())
        for value in self.initializers.values():
            assert value.const_value is not None
            value.const_value.try_to_load()
            proto.initializer.add().CopyFrom(value.const_value.raw)
        for node in self:
            node.write_into(proto.node.add())
            for value in node.outputs:
                if value.name and not value.is_output:
                    value.write_into(proto.value_info.add())
        for value in self.outputs:
            value.write_into(proto.output.add())


class ProtoModel:
    """A `ModelView` of a ModelProto, which is not changed.

    Args:
        proto: A well-formed model for which `Findings.needs_onnx_ir` is false.
        base_dir: The folder of its external data files.
    """

    def __init__(self, proto: onnx.ModelProto, base_dir: str = "") -> None:
        self._proto = proto
        self._base_dir = base_dir
        self.opset_imports = {usual_name(entry.domain): entry.version for entry in proto.opset_import}
        self.graph = self._read_graph(proto.graph, ())

    def origin(self, _: Node) -> str:
        return ""  # this view has no functions

    def written_name(self, node: Node) -> str:
        return node_name(node)

    def set_constant(self, value: Value, element: int, array: Array) -> None:
        value.const_value = Tensor(onnx.TensorProto(data_type=element, dims=array.shape), array=array)

    def set_shape(self, value: Value, dims: Dims) -> None:
        value.replace_type(value.element, _to_shape(dims))

    def set_type(self, value: Value, element: int, dims: Dims | None) -> None:
        element_type = element if element and element in BITS else value.element  # a later onnx may have more types
        value.replace_type(element_type, value.shape if dims is None else _to_shape(dims))

    def serialize(self) -> tuple[bytes, Sequence[Value]]:
        proto = onnx.ModelProto(ir_version=self._proto.ir_version, opset_import=self._proto.opset_import)
        self.graph.write_into(proto.graph)
        return to_bytes(proto, "the model"), list(all_values(self.graph))

    def fold(self, node: Node, constants: Sequence[tuple[int, Array]]) -> None:
        for output, (element, array) in zip(node.outputs, constants, strict=True):
            output.replace_type(element, array.shape)
            self.set_constant(output, element, array)
            output.producer_node = None
        node.graph = None  # so that `Graph` omits the node

    def _read_graph(self, proto: onnx.GraphProto, scopes: Sequence[Mapping[str, Value]]) -> Graph:
        """Return a view of a graph. `scopes` has the values of outer graphs by name, outermost first."""
        graph = Graph()
        values: dict[str, Value] = {}
        value: Value | None
        for info in proto.input:
            value = values[info.name] = Value(info.name, None, info.type)
            value.is_input = True
            graph.inputs.append(value)
        types = {info.name: info.type for info in proto.value_info}
        # In early IR versions, each initializer of the main graph is also an input, but is still a constant.
        inputs_are_constant = not scopes and self._proto.ir_version < REPLACEABLE_VERSION
        for tensor in proto.initializer:
            value = values.get(tensor.name)
            if value is None:
                value = values[tensor.name] = Value(tensor.name, None, types.get(tensor.name, tensor))
            elif not inputs_are_constant:
                continue  # the initializer is only a default: see `without_defaults`
            value.const_value = Tensor(tensor, self._base_dir)
            graph.initializers[tensor.name] = value
        for node_proto in proto.node:
            node = Node(node_proto, graph, self._base_dir)
            for name in node_proto.output[:]:  # a list, which is faster to walk than protobuf's container
                value = Value(name, node, types.get(name))
                if name:
                    values[name] = value
                node.outputs.append(value)
            graph.nodes.append(node)
        for node in graph.nodes:
            self._connect(node, values, scopes)
        for info in proto.output:
            value = values.get(info.name) or Value(info.name)  # a new Value for a name from an outer graph
            value.is_output = True
            if not value.is_input:  # an input keeps its own type
                value.declared = info.type
            graph.outputs.append(value)
        return graph

    def _connect(self, node: Node, values: Mapping[str, Value], scopes: Sequence[Mapping[str, Value]]) -> None:
        """Set the inputs of a node and read its subgraphs. `values` and `scopes` have the visible values by name."""
        for name in node.proto.input[:]:  # a list, which is faster to iterate over
            value = None
            if name:
                value = values.get(name) or next(scope[name] for scope in reversed(scopes) if name in scope)
                value.readers.append(node)
            node.inputs.append(value)
        attributes = node.proto.attribute
        if attributes and any(attribute.type in (GRAPH, GRAPHS) for attribute in attributes):
            inner = (*scopes, values)
            node.read_attributes(lambda proto: [self._read_graph(graph, inner) for graph in graphs_of(proto)])

    def detach_weights(self) -> None:
        """Turn large and unreadable initializers into inputs; see `ModelView.detach_weights`."""
        for name, value in list(self.graph.initializers.items()):
            tensor = value.const_value
            assert tensor is not None
            is_kept = tensor.nbytes <= LARGE_BYTES
            if is_kept and tensor.is_external:
                try:
                    tensor.load()
                except Exception as error:  # onnx-ir has several classes of errors for unreadable files
                    is_kept = False
                    value.meta = {MISSING: describe_cause(error)}
            if is_kept:
                continue
            value.replace_type(tensor.raw.data_type, tensor.shape)
            del self.graph.initializers[name]
            value.const_value = None
            if not value.is_input:
                value.is_input = True
                self.graph.inputs.append(value)


def _to_shape(dims: Dims) -> Shape:
    return tuple([dim if isinstance(dim, int) else Symbol(dim) for dim in dims])

"""The view of a model that is read: its graphs, nodes and values. See `proto_reader` for how it is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_ops.model.domains import usual_name
from onnx_ops.model.element_type import BITS, ElementType
from onnx_ops.model.nodes import LARGE_BYTES, MISSING, node_name
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import WRITTEN_NAME
from onnx_ops.model.read import describe_cause, to_bytes
from onnx_ops.model.views import FLOAT, FLOATS, GRAPH, GRAPHS, INT, INTS, TENSOR, Array, Dims, read_dim
from onnx_ops.model.walk import all_values

ORIGIN = "io.sliceport.origin"
"""Key in the metadata of a slicing node of a function for `NodeInModel.origin`."""
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
        self, name: str, declared: onnx.TypeProto | onnx.TensorProto | None = None, producer_node: Node | None = None
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

    def set_type(self, element: int | None, dims: Dims | None) -> None:
        """Set the element type if `element` is a known type, and the sizes if `dims` is not None."""
        shape = self.shape if dims is None else tuple([dim if isinstance(dim, int) else Symbol(dim) for dim in dims])
        if element and element in BITS:  # a later onnx may have more types
            self._element = element
        self._shape = shape

    def set_constant(self, element: int, array: Array) -> None:
        """Store the elements of the value, of type `element`, as its `const_value`. The value's node stays."""
        self.const_value = Tensor(onnx.TensorProto(data_type=element, dims=array.shape), array=array)

    def write_into(self, proto: onnx.ValueInfoProto) -> None:
        """Write the value into `proto`, with the type and sizes that are known now."""
        proto.name = self.name
        if isinstance(self.declared, onnx.TypeProto) and self.declared.WhichOneof("value") not in (None, "tensor_type"):
            proto.type.CopyFrom(self.declared)
            return
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
        """Read the declared type. For a sequence or an optional, this is the type of its elements."""
        self._is_read = True
        if isinstance(self.declared, onnx.TensorProto):
            self._element, self._shape = self.declared.data_type, tuple(self.declared.dims)
            return
        declared = self.declared
        while declared is not None and (kind := declared.WhichOneof("value")) in ("sequence_type", "optional_type"):
            declared = getattr(declared, kind).elem_type
        if declared is not None and declared.HasField("tensor_type"):
            tensor = declared.tensor_type
            self._element = tensor.elem_type if tensor.HasField("elem_type") else None
            if tensor.HasField("shape"):
                dims = [read_dim(dim) for dim in tensor.shape.dim]
                self._shape = tuple([dim if isinstance(dim, int) else Symbol(dim) for dim in dims])


class Node:
    """A node; see `NodeView`.

    Attributes:
        proto: The node as it is written; in a function, with the attributes of the call.
        name: The name; in a function, a unique one.
    """

    meta = _NO_META
    __slots__ = ("_attributes", "_base_dir", "domain", "graph", "inputs", "name", "op_type", "outputs", "proto")

    def __init__(self, proto: onnx.NodeProto, name: str, graph: Graph, base_dir: str) -> None:
        self.proto = proto
        self.graph: Graph | None = graph
        self.name = name
        self.op_type = proto.op_type
        self.domain = usual_name(proto.domain)
        self.inputs: list[Value | None] = []
        self.outputs: list[Value] = []
        self._base_dir = base_dir
        self._attributes: Mapping[str, Attribute] | None = None

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        if self._attributes is None:
            self.read_attributes({})
        assert self._attributes is not None
        return self._attributes

    def read_attributes(self, graphs: Mapping[str, Sequence[Graph]]) -> None:
        """Read the attributes. `graphs` has views of the graphs in attributes, by the name of the attribute."""
        self._attributes = {
            proto.name: Attribute(proto, self._base_dir, graphs.get(proto.name, ())) for proto in self.proto.attribute
        }

    @property
    def written_name(self) -> str:
        """The name that identifies the node in the file. In a function, it begins with the function's name."""
        return self.read_mark(WRITTEN_NAME) or node_name(self)

    def read_mark(self, key: str) -> str:
        """Return an entry of the metadata of the node; an empty text if it has none."""
        return next((entry.value for entry in self.proto.metadata_props if entry.key == key), "")

    def write_into(self, proto: onnx.NodeProto) -> None:
        """Write the node into `proto`. See `Graph.write_into` for its subgraphs and external tensors."""
        proto.CopyFrom(self.proto)
        proto.name, proto.domain = self.name, self.domain
        proto.input[:] = ["" if value is None else value.name for value in self.inputs]
        proto.output[:] = [value.name for value in self.outputs]
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
    """A graph, which iterates over its nodes in an order in which they can run."""

    name: str
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    initializers: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self.nodes if node.graph is not None)  # without folded nodes

    def write_into(self, proto: onnx.GraphProto) -> None:
        """Write the graph into `proto`, with the types and sizes known now. Small external tensors are embedded."""
        proto.name = self.name or "graph"  # onnx requires a name
        for value in self.inputs:
            value.write_into(proto.input.add())
        for value in self.initializers.values():
            assert value.const_value is not None
            value.const_value.try_to_load()
            tensor = proto.initializer.add()
            tensor.CopyFrom(value.const_value.raw)
            tensor.name = value.name
        self.write_nodes_into(proto)
        for value in self.outputs:
            value.write_into(proto.output.add())

    def write_nodes_into(self, proto: onnx.GraphProto) -> None:
        """Write the nodes, and the types of their outputs, into `proto`."""
        for node in self:
            node.write_into(proto.node.add())
            for value in node.outputs:
                if value.name and not value.is_output:
                    value.write_into(proto.value_info.add())


@dataclass
class ProtoModel:
    """A model without functions and defaults (see `without_defaults`), and methods that change it.

    Attributes:
        graph: The main graph.
        opset_imports: The version of each operator set, by domain.
        ir_version: The version of the IR.
        functions: The functions, if calls of functions are not inlined.
    """

    graph: Graph
    opset_imports: Mapping[str, int]
    ir_version: int
    functions: Sequence[onnx.FunctionProto] = ()

    def serialize(self) -> tuple[bytes, Sequence[Value]]:
        """Return the serialized model, and the values whose facts `onnx_ops.infer.propagate` returns, in that order."""
        imports = [
            onnx.OperatorSetIdProto(domain=name, version=version) for name, version in self.opset_imports.items()
        ]
        proto = onnx.ModelProto(ir_version=self.ir_version, opset_import=imports, functions=self.functions)
        self.graph.write_into(proto.graph)
        return to_bytes(proto, "the model"), list(all_values(self.graph))

    def fold(self, node: Node, constants: Sequence[tuple[int, Array]]) -> None:
        """Replace a node by a constant (element type, elements) per output. No output may be an output of a graph."""
        for output, (element, array) in zip(node.outputs, constants, strict=True):
            output.set_type(element, array.shape)
            output.set_constant(element, array)
            output.producer_node = None
        node.graph = None  # so that `Graph` omits the node

    def detach_weights(self) -> None:
        """Turn large or unreadable initializers of the main graph into inputs. Load small external initializers."""
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
            value.set_type(tensor.raw.data_type, tensor.shape)
            del self.graph.initializers[name]
            value.const_value = None
            if not value.is_input:
                value.is_input = True
                self.graph.inputs.append(value)

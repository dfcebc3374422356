"""What is read of a model, whether it is a ModelProto (`proto_model`) or onnx-ir's (`ir_model`): one reader for both.

Their values and nodes have the names that onnx-ir gives them; this is the part of it that is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from onnx_ops.model.facts import Facts
    from onnx_ops.model.shape_arithmetic import Array, Dims


class DimView(Protocol):
    """A size that is open."""

    @property
    def value(self) -> str | None:
        """Its name, if it has one."""
        ...


class ShapeView(Protocol):
    """The sizes of a tensor, numbers and open ones."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int | DimView]: ...


class ElementView(Protocol):
    """An element type; see `ElementType`."""

    @property
    def name(self) -> str:
        """Its name in ONNX."""
        ...

    @property
    def value(self) -> int:
        """Its number."""
        ...


class TensorView(Protocol):
    """A constant."""

    @property
    def dtype(self) -> ElementView:
        """Its element type."""
        ...

    @property
    def shape(self) -> ShapeView:
        """Its sizes."""
        ...

    @property
    def size(self) -> int:
        """How many elements it has."""
        ...

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        ...

    def numpy(self) -> Array:
        """Its elements, read now."""
        ...

    def tobytes(self) -> bytes:
        """The same as bytes, the least first."""
        ...


class AttributeView(Protocol):
    """An attribute of a node."""

    @property
    def type(self) -> int:
        """The number of its type in AttributeProto."""
        ...

    @property
    def value(self) -> Any:
        """The tensor that it holds, or that its integers are; onnx-ir gives the integers."""
        ...

    @property
    def ref_attr_name(self) -> str | None:
        """The attribute that it refers to, if it does."""
        ...

    def is_ref(self) -> bool:
        """Whether it refers to an attribute of the function that the node is in."""
        ...

    def as_int(self) -> int:
        """Its integer."""
        ...

    def as_ints(self) -> Sequence[int]:
        """Its integers."""
        ...

    def as_graph(self) -> GraphView:
        """Its graph."""
        ...

    def as_graphs(self) -> Sequence[GraphView]:
        """Its graphs."""
        ...


class ValueView(Protocol):
    """A value: an input of a graph, a constant or an output of a node."""

    @property
    def name(self) -> str | None:
        """Its name; empty for an output that is left out."""
        ...

    @property
    def shape(self) -> ShapeView | None:
        """Its sizes; None where the rank is not known."""
        ...

    @property
    def dtype(self) -> ElementView | None:
        """Its element type, if it is known."""
        ...

    @property
    def const_value(self) -> TensorView | None:
        """What it always is, if it is a constant that no node makes."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What was found out about it, by name."""
        ...

    def producer(self) -> NodeView | None:
        """The node that writes it, if one does."""
        ...

    def uses(self) -> Any:
        """Something true if a node reads it."""
        ...

    def is_graph_input(self) -> bool:
        """Whether it is an input of a graph."""
        ...

    def is_graph_output(self) -> bool:
        """Whether it is an output of a graph."""
        ...


class NodeView(Protocol):
    """A node of a graph."""

    @property
    def name(self) -> str | None:
        """Its name, if it has one."""
        ...

    @property
    def op_type(self) -> str:
        """Its operator."""
        ...

    @property
    def domain(self) -> str:
        """The domain of that; empty for the standard one."""
        ...

    @property
    def inputs(self) -> Sequence[ValueView | None]:
        """What it reads; None for what is left out."""
        ...

    @property
    def outputs(self) -> Sequence[ValueView]:
        """What it writes."""
        ...

    @property
    def attributes(self) -> Mapping[str, AttributeView]:
        """Its attributes by name."""
        ...

    @property
    def graph(self) -> Any:
        """The graph that it is in; None once it is folded."""
        ...


class GraphView(Protocol):
    """A graph: its inputs, and its nodes in an order in which they can run."""

    @property
    def inputs(self) -> Sequence[ValueView]:
        """Its inputs."""
        ...

    def __iter__(self) -> Iterator[NodeView]: ...

    def all_nodes(self) -> Iterator[NodeView]:
        """Its nodes and those of the graphs in them."""
        ...


class ModelView(Protocol):
    """A model without functions whose defaults are aside, and what changes in it while it is read."""

    @property
    def graph(self) -> GraphView:
        """The main graph."""
        ...

    @property
    def opset_imports(self) -> Mapping[str, int]:
        """The version of each operator set."""
        ...

    def origin(self, node: Any) -> str:
        """See `NodeInModel.origin`."""
        ...

    def set_shape(self, value: Any, dims: Dims) -> None:
        """Give a value other sizes."""
        ...

    def copy_type(self, value: Any, source: Any) -> None:
        """Give a value without a type that of another."""
        ...

    def infer_shapes(self) -> Mapping[Any, Facts]:
        """Give values the types and sizes that can be inferred; what is written for them counts where nothing can.

        Large and missing constants are inputs from here on: only their shapes matter.

        Returns:
            What was found, constants included.
        """
        ...

    def fold(self, node: Any, constants: Sequence[tuple[int, Array]]) -> None:
        """Let a node's outputs be constants, by element type and elements, and remove it from its graph."""
        ...


INT, TENSOR, GRAPH, INTS, GRAPHS = 2, 4, 5, 7, 10
"""Types of attributes, as AttributeProto numbers them."""


def subgraphs(node: NodeView) -> Iterator[GraphView]:
    """The graphs in the attributes of a node."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == GRAPH:
            yield attribute.as_graph()
        elif attribute.type == GRAPHS:
            yield from attribute.as_graphs()


def all_values(graph: GraphView) -> Iterator[ValueView]:
    """The inputs of a graph, then for each node its outputs and the values of the graphs in it."""
    yield from graph.inputs
    for node in graph:
        yield from node.outputs
        if node.attributes:
            for subgraph in subgraphs(node):
                yield from all_values(subgraph)


def dims_of(shape: ShapeView | None) -> Dims | None:
    """Sizes as numbers, symbols or None."""
    return None if shape is None else tuple([dim if isinstance(dim, int) else dim.value for dim in shape])


def is_static(shape: ShapeView | None) -> bool:
    """Whether there is a shape, and all its sizes are known."""
    return shape is not None and all(isinstance(dim, int) for dim in shape)

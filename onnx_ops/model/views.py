"""Protocols for reading nodes: `proto_model` satisfies them for a ModelProto, and onnx-ir's own classes as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]
Dims = tuple[int | str | None, ...]
"""The size of each axis: a number, the name of an open size, or None for an open size without a name."""
Sizes = tuple[int | None, ...]
"""The size of each axis, None for an open one."""
FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, GRAPHS = 1, 2, 3, 4, 5, 6, 7, 10
"""Types of attributes, as AttributeProto numbers them."""


class DimView(Protocol):
    """An open size. Its value is its name, or None."""

    @property
    def value(self) -> str | None: ...


class ShapeView(Protocol):
    """The sizes of a tensor: numbers, and a `DimView` for each open size."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int | DimView]: ...


class TensorView(Protocol):
    """A constant. Its elements are read on demand, which may raise errors of several classes."""

    @property
    def dtype(self) -> IntEnum: ...
    @property
    def shape(self) -> ShapeView: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def numpy(self) -> Array: ...
    def tobytes(self) -> bytes: ...


class AttributeView(Protocol):
    """An attribute of a node.

    Its value is a tensor, a graph or a list of graphs. Numbers are Python numbers in onnx-ir, and a tensor in the view
    of a ModelProto. If the attribute refers to an attribute of the surrounding function, `ref_attr_name` is the
    name of that attribute, and there is no value.
    """

    @property
    def type(self) -> int: ...
    @property
    def value(self) -> Any: ...
    @property
    def ref_attr_name(self) -> str | None: ...
    def as_int(self) -> int: ...
    def as_ints(self) -> Sequence[int]: ...
    def as_string(self) -> str: ...


class ValueView(Protocol):
    """A graph input, a constant or an output of a node.

    A left-out output has an empty name. `const_value` is set for initializers and by `ModelView.set_constant`, but not
    for outputs of Constant nodes: see `nodes.constant`. `meta` has notes by name. `uses()` is true if a node reads the
    value. `consumers()` may list a node twice if the node reads the value twice.
    """

    @property
    def name(self) -> str | None: ...
    @property
    def shape(self) -> ShapeView | None: ...
    @property
    def dtype(self) -> IntEnum | None: ...
    @property
    def const_value(self) -> TensorView | None: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...
    def producer(self) -> NodeView | None: ...
    def uses(self) -> Any: ...
    def consumers(self) -> Sequence[NodeView]: ...
    def is_graph_input(self) -> bool: ...
    def is_graph_output(self) -> bool: ...


class OperatorView(Protocol):
    """The operator of a node; NodeProto has these attributes too."""

    @property
    def op_type(self) -> str: ...
    @property
    def domain(self) -> str: ...


class NodeView(OperatorView, Protocol):
    """A node. An input that is left out is None; `graph` is None once the node is folded."""

    @property
    def name(self) -> str | None: ...
    @property
    def inputs(self) -> Sequence[ValueView | None]: ...
    @property
    def outputs(self) -> Sequence[ValueView]: ...
    @property
    def attributes(self) -> Mapping[str, AttributeView]: ...
    @property
    def graph(self) -> Any: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...


def read_dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Return a size as a number or a name. Return None if it has neither, or is below 0: some exporters write -1."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def dims_of(shape: ShapeView | None) -> Dims | None:
    """Return the sizes of a shape as `Dims`; None if there is no shape."""
    return None if shape is None else tuple([dim if isinstance(dim, int) else dim.value for dim in shape])


def sizes_of_shape(shape: ShapeView) -> Sizes:
    """Return the sizes of a shape, None for each open one."""
    return tuple([dim if isinstance(dim, int) else None for dim in shape])


def fits(dims: Dims | None, sizes: Sequence[int]) -> bool:
    """Return whether a value with these dims can have these sizes."""
    if dims is None:
        return True
    pairs = zip(dims, sizes, strict=False)
    return len(dims) == len(sizes) and not any(isinstance(dim, int) and dim != size for dim, size in pairs)


def static_sizes(dims: Iterable[object] | None) -> tuple[int, ...] | None:
    """Return the sizes of a `Dims`, a `Sizes` or a shape. Return None unless every size is a number."""
    if dims is None:
        return None
    all_dims = list(dims)
    sizes = tuple([dim for dim in all_dims if isinstance(dim, int)])
    return sizes if len(sizes) == len(all_dims) else None

"""Graphs as values that `onnx_file` and `ir_file` write, without the packages of either format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Element(NamedTuple):
    """An element type: its number in TensorProto.DataType, and its NumPy type."""

    number: int
    dtype: np.dtype[Any]

    @property
    def ir_name(self) -> str:
        """The name of the type in OpenVINO's IR."""
        names = {"bool": "boolean", "bfloat16": "bf16"}
        return names.get(self.dtype.name, f"{self.dtype.kind}{self.dtype.itemsize * 8}")


ELEMENTS = {
    name: Element(number, np.dtype(dtype))
    for number, name, dtype in (
        (1, "float", np.float32), (2, "uint8", np.uint8), (3, "int8", np.int8), (4, "uint16", np.uint16),
        (5, "int16", np.int16), (6, "int32", np.int32), (7, "int64", np.int64), (9, "bool", np.bool_),
        (10, "float16", np.float16), (11, "double", np.float64), (12, "uint32", np.uint32), (13, "uint64", np.uint64),
        (14, "complex64", np.complex64), (15, "complex128", np.complex128), (16, "bfloat16", ml_dtypes.bfloat16),
    )
}  # fmt: skip
"""The element types of data by their ONNX names. OpenVINO has no complex numbers."""


def element_of(array: Array) -> Element:
    """Return the element type of an array."""
    return next(element for element in ELEMENTS.values() if element.dtype == array.dtype)


class TensorType(NamedTuple):
    """The declared type of an input or output; a size that is open has a name instead of a number."""

    element: Element
    sizes: Sequence[int | str]

    @classmethod
    def opened(cls, name: str, array: Array) -> TensorType:
        """Return the type of a value whose sizes are all open."""
        return cls(element_of(array), [f"{name}_{i}" for i in range(array.ndim)])


@dataclass(frozen=True)
class Node:
    """A node. An attribute may be a `Graph`.

    In IR, a node with graphs maps its inputs and outputs to theirs by position; see `ir_file`.

    Attributes:
        operator: The operator, without its version.
        inputs: The names of its inputs; an absent input has an empty name.
        outputs: The names of its outputs.
        attributes: The attributes by name.
        version: The version of the operator in OpenVINO's operator sets; ONNX files do not have it.
        name: The name of the node.
    """

    operator: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    name: str = ""

    @property
    def bodies(self) -> list[Graph]:
        """The graphs among its attributes."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]


def select_needed(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[list[Node], set[str]]:
    """Return those nodes that outputs need, in order, and the names of all values that are needed."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(filter(None, node.inputs), *(body.outer_names() for body in node.bodies))
    return kept[::-1], needed


@dataclass(frozen=True)
class Graph:
    """A graph, or the body of a node.

    Attributes:
        name: The name of the graph.
        inputs: The types of its inputs, by name and in order.
        outputs: The types of its outputs, by name and in order.
        nodes: The nodes, each behind those that write its inputs.
        constants: The constants by name.
        text: A description.
    """

    name: str
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    nodes: Sequence[Node]
    constants: Mapping[str, Array] = field(default_factory=dict)
    text: str = ""

    def outer_names(self) -> set[str]:
        """Return the names that a body reads and does not define."""
        inner = {name for node in self.nodes for name in node.outputs} | self.inputs.keys() | self.constants.keys()
        read = {name for node in self.nodes for name in node.inputs if name} | self.outputs.keys()
        return read.union(*(body.outer_names() for node in self.nodes for body in node.bodies)) - inner

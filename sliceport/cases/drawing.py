"""A graph that grows by random nodes, with the values that NumPy computes for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sliceport.cases.graph import Array, Graph, Node, TensorType, element_of, select_needed

Compute = Callable[..., Sequence[Array]]
_MAX_SIZE = 4096
_MAX_MAGNITUDE = 2**20
"""Limit for the magnitude of floats, so that sums and products of integers are exact in 32 bits."""


class _Step(NamedTuple):
    """The computation of a node: `compute` takes the values in `reads`, and returns those in `writes`."""

    reads: Sequence[str]
    writes: Sequence[str]
    compute: Compute


@dataclass
class Drawing:
    """A graph that grows node by node; the body of a node is a drawing of its own.

    Attributes:
        rng: The random numbers.
        opset: The operator set of ONNX; None for OpenVINO.
        prefix: The beginning of its names; empty for a main graph.
        values: All values that its nodes can read, by name.
        pool: The names of the values that hold data.
        inputs: The types of its inputs, by name.
        is_exact: Whether no node rounds.
    """

    rng: random.Random
    opset: int | None
    prefix: str = ""
    values: dict[str, Array] = field(default_factory=dict)
    pool: list[str] = field(default_factory=list)
    inputs: dict[str, TensorType] = field(default_factory=dict)
    is_exact: bool = True
    _constants: dict[str, Array] = field(default_factory=dict)
    _nodes: list[Node] = field(default_factory=list)
    _steps: list[_Step] = field(default_factory=list)
    _count: int = 0

    @property
    def is_ir(self) -> bool:
        """Whether the graph is for OpenVINO."""
        return self.opset is None

    def since(self, opset: int) -> bool:
        """Return whether the graph is for OpenVINO, or for this operator set of ONNX or a later one."""
        return self.opset is None or self.opset >= opset

    def maybe(self, share: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < share

    def new_name(self) -> str:
        """Return an unused name."""
        self._count += 1
        return f"{self.prefix}v{self._count}"

    def pick(self) -> str:
        """Return the name of a data value, mostly of a late one, so that nodes form chains."""
        return self.rng.choice(self.pool[-4:] if self.maybe(0.7) else self.pool)

    def spell_axis(self, axis: int, rank: int, *, opset: int = 11) -> int:
        """Return an axis, or the negative number for it that operators accept since an operator set of ONNX."""
        return axis - self.rng.choice((0, rank)) if self.since(opset) else axis

    def constant(self, values: Any, dtype: str = "int64") -> str:
        """Return the name of a new constant."""
        name = self.new_name()
        self.values[name] = self._constants[name] = np.array(values, dtype)
        return name

    def known_late(self, values: Any, dtype: str = "int64") -> str:
        """Return the name of a new constant, or sometimes of an input of the model, which is known at run time only."""
        name = self.constant(values, dtype)
        if not self.prefix and self.maybe(0.12):
            array = self._constants.pop(name)
            self.inputs[name] = TensorType(element_of(array), array.shape)
        return name

    def add(
        self,
        operator: str,
        reads: Sequence[str],
        compute: Compute,
        lists: Sequence[str] = (),
        count: int = 1,
        version: int = 1,
        captures: Sequence[str] = (),
        **attributes: Any,
    ) -> list[str]:
        """Add a node, and return its outputs; none if they would be too large.

        Args:
            operator: The operator.
            reads: The names of the inputs that `compute` takes.
            compute: The function that returns the outputs.
            lists: The names of the other inputs, which `compute` knows; empty for an absent input.
            count: The number of outputs.
            version: The version of the operator in OpenVINO.
            captures: The names of values that only bodies read. `compute` takes them behind those in `reads`.
            **attributes: The attributes.
        """
        taken = (*reads, *captures)
        arrays = [np.array(each, order="C") for each in compute(*(self.values[name] for name in taken))]
        floats = [array for array in arrays if array.dtype.kind == "f"]
        if any(array.size > _MAX_SIZE for array in arrays) or any(
            np.abs(array).max(initial=0) > _MAX_MAGNITUDE for array in floats
        ):
            return []
        names = [self.new_name() for _ in range(count)]
        self.values |= zip(names, arrays, strict=True)
        inputs = [*reads, *lists]
        while not inputs[-1]:
            inputs.pop()
        name = f"{self.prefix}n{len(self._nodes)}"
        self._nodes.append(Node(operator, inputs, tuple(names), attributes, version, name))
        self._steps.append(_Step(taken, names, compute))
        return names

    def copy(self, source: str) -> str:
        """Add a node that copies the elements of a value, and return the name of the copy."""
        if self.values[source].ndim:
            return self.add("Concat", [source], lambda x: [x], axis=0)[0]
        return self.add("Reshape", [source], lambda x: [x.reshape(1)], [self.constant([1])], **self.copying_sizes())[0]

    def copying_sizes(self) -> dict[str, Any]:
        """Return the attributes of a Reshape whose sizes of 0 copy those of the data."""
        return {"special_zero": True} if self.is_ir else {}

    def declare(self, names: Sequence[str]) -> dict[str, TensorType]:
        """Return types with open sizes for values."""
        return {name: TensorType.opened(name, self.values[name]) for name in names}

    def to_graph(self, name: str, outputs: Sequence[str], inputs: Mapping[str, TensorType]) -> Graph:
        """Return the graph with those nodes, constants and inputs that its outputs need; a body keeps all inputs."""
        nodes, needed = select_needed(self._nodes, outputs)
        kept = {key: type_ for key, type_ in inputs.items() if key in needed or self.prefix}
        constants = {key: value for key, value in self._constants.items() if key in needed}
        return Graph(name, kept, self.declare(outputs), nodes, constants)

    def evaluate(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """Return outputs for other inputs of the same sizes."""
        values = self.values | dict(inputs)
        for step in self._steps:
            values |= zip(step.writes, step.compute(*(values[name] for name in step.reads)), strict=True)
        return [values[name] for name in outputs]

"""Nodes and constants of a random graph, each computed when it is added."""

from __future__ import annotations

import random as random_module
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import oracle
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from running import as_arrays

from onnx_ops.defects.contested import CONTESTED_ENDS
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from sliceport.engines.engine import Array

from . import drawing

LOCAL = "local"
"""The domain of the functions of a model."""


@dataclass
class NodeBuilder:
    """A graph in the making, and the methods that add nodes and constants.

    Attributes:
        values: The array of each value, if the input has the sizes that the graph is made for.
        data: The values that nodes cut; the others are parameters.
        makers: The methods that add nodes; none for all that the operator set allows.
        constants: The kinds of parameters; a `default` is one that a caller may replace.
        is_contested: Whether there are nodes that engines read differently.
        feeds: Other values of initializers that a caller may replace.
    """

    random: random_module.Random
    opset: int = 17
    ir_version: int = 8
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    functions: dict[str, onnx.FunctionProto] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    data: list[str] = field(default_factory=list)
    makers: tuple[str, ...] = ()
    constants: tuple[str, ...] = ("initializer", "initializer", "node", "default", "sum")
    is_contested: bool = True
    feeds: dict[str, list[list[int]]] = field(default_factory=dict)
    count: int = 0

    def add_input(self, name: str, array: Array, opened: Sequence[int] = ()) -> None:
        """Add an input, whose sizes on the `opened` axes are symbols."""
        dims = [f"d{axis}" if axis in opened else size for axis, size in enumerate(array.shape)]
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
        self.values[name] = array
        self.data.append(name)

    def name(self, kind: str = "v") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def node(self, op_type: str, inputs: list[str], count: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node and return its outputs; none if the node does not take the values."""
        names = [self.name() for _ in range(count)]
        label = self.name("n") if self.random.random() < 0.9 else ""
        node = helper.make_node(op_type, inputs, names, label, domain=domain, **attributes)
        try:
            arrays = self.compute(node)
        except Exception:
            return []
        self.nodes.append(node)
        self.values.update(zip(names, arrays, strict=True))
        self.data += [
            name for name, array in zip(names, arrays, strict=True) if array.dtype == self.values[self.data[0]].dtype
        ]
        return names

    def compute(self, node: onnx.NodeProto) -> list[Array]:
        """Compute one node on the values that it or its subgraphs read."""
        if node.domain == STRIDED_SLICE_DOMAIN:
            arrays = [self.values[name] for name in node.input]
            masks = {each.name: list(each.ints) for each in node.attribute}
            return [oracle.strided_slice(arrays[0], *(array.tolist() for array in arrays[1:]), **masks)]
        inner = [name for each in node.attribute for other in each.g.node for name in other.input]
        given = {name: self.values[name] for name in (*node.input, *inner) if name in self.values}
        if node.op_type == "Loop":  # onnx's evaluator takes a condition that is left out for a false one
            node = helper.make_node(
                "Loop", [node.input[0], "true", *node.input[2:]], node.output, body=node.attribute[0].g
            )
            given["true"] = np.array(True)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(LOCAL, 1)]
        graph = helper.make_graph([node], "one", inputs, outputs)
        model = helper.make_model(graph, opset_imports=imports, functions=list(self.functions.values()))
        with warnings.catch_warnings(action="ignore"):  # of NumPy, about infinities
            return as_arrays(ReferenceEvaluator(model).run(None, given))

    def constant(self, values: list[int] | int, *, plain: bool = False) -> str:
        """Add an initializer, a Constant, an initializer that a caller may replace, or a sum of others."""
        array = np.array(values, np.int64)
        kind = "initializer" if plain else self.random.choice(self.constants)
        name = self.name("c")
        self.values[name] = array
        if kind == "node":
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        elif kind == "sum" and self.opset >= 7 and array.ndim:
            parts = [self.constant((array * 0).tolist(), plain=True), self.constant(values, plain=True)]
            self.nodes.append(helper.make_node("Add", parts, [name]))
        else:
            self.initializers.append(numpy_helper.from_array(array, name))
            if kind == "default" or self.ir_version < 4:
                self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, list(array.shape)))
            if kind == "default" and self.ir_version >= 4 and array.ndim and array.size:
                self.feeds[name] = [[self.random.choice((0, 1, int(value), -1)) for value in array]]
        return name

    def axis(self, source: str) -> int:
        return self.random.randrange(self.values[source].ndim)

    def size(self, source: str, axis: int) -> int:
        return int(self.values[source].shape[axis])

    def bounds(self, size: int) -> tuple[int, int, int]:
        """Return a start, an end and a step, most of them of a plain run; far steps end onnx's shape inference."""
        if self.random.random() < 0.6:
            start, stop = sorted((self.random.randint(0, size), self.random.randint(0, size)))
            return start, stop if self.random.random() < 0.8 else drawing.INT64_MAX, 1
        step = self.random.choice((1, 1, 2, 3, -1, -1, -2, 100, -100)) if self.opset >= 10 else 1
        start, stop = drawing.bound(self.random, size), drawing.bound(self.random, size)
        if self.is_contested:
            return start, stop, step
        return max(start, -size), drawing.INT64_MIN if step < 0 and stop in CONTESTED_ENDS else stop, step

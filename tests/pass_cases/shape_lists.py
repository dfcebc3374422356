"""Random graphs with a Reshape to a computed list of sizes, where axes have size 0 or are open."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import prod
from typing import Any

import onnx
from onnx import TensorProto, helper

Size = int | str
_DRAWN_SIZES = (0, 0, 1, 2, 2, 3, 6)


@dataclass
class _Writer:
    """The nodes of a graph that reshapes `data`, whose sizes are drawn.

    Attributes:
        random: Draws what is written.
        sizes: The sizes of the data, a name for an open one.
        nodes: The nodes so far.
    """

    random: random.Random
    sizes: list[Size]
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add(self, op_type: str, *inputs: str | int | list[int], outputs: int = 1, **attributes: Any) -> str:
        """Add a node and return the name of its first output. Numbers become Constants."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        written = [f"v{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op_type, names, written, **attributes))
        return written[0]

    def _constant(self, value: int | list[int]) -> str:
        name = f"v{len(self.nodes)}"
        attributes: dict[str, Any] = {"value_int" if isinstance(value, int) else "value_ints": value}
        self.nodes.append(helper.make_node("Constant", [], [name], **attributes))
        return name

    def reshape(self, data: str) -> str:
        """Add a Reshape of `data` to its sizes in any order, some of them multiplied, copied or left as -1."""
        axes = list(range(len(self.sizes)))
        if self.random.random() < 0.5:
            self.random.shuffle(axes)
        operands: list[str | list[int]] = []
        while axes:
            count = 1 if self.random.random() < 0.75 else self.random.randint(1, len(axes))
            group, axes = axes[:count], axes[count:]
            operands.append(self._draw_operand(data, group, len(operands), has_rest=[-1] in operands))
        if self.random.random() < 0.2:
            operands.insert(self.random.randrange(len(operands) + 1), [1])
        return self.add("Reshape", data, self.add("Concat", *operands, axis=0))

    def _draw_operand(self, data: str, axes: list[int], position: int, *, has_rest: bool) -> str | list[int]:
        """Return the size of one axis, or the product of the sizes of several, as a list of one number."""
        sizes = [size for axis in axes if isinstance(size := self.sizes[axis], int)]
        drawn = self.random.random()
        if len(sizes) == len(axes) and drawn < 0.3:
            return [prod(sizes)]
        if axes == [position] and drawn < 0.45:
            return [0]
        if not has_rest and drawn < 0.55:
            return [-1]
        product = self._draw_size(data, axes[0])
        for axis in axes[1:]:
            product = self.add("Mul", product, self._draw_size(data, axis))
        return product

    def _draw_size(self, data: str, axis: int) -> str:
        """Add nodes that read the size of an axis in one of several ways. Return it as a list of one number."""
        shape, rank = self.add("Shape", data), len(self.sizes)
        match self.random.randrange(6):
            case 0:
                return self.add("Unsqueeze", self.add("Gather", shape, axis), [0])
            case 1:
                return self.add("Unsqueeze", self.add("Mul", self.add("Gather", shape, axis), 1), [0])
            case 2:
                return self.add("Gather", shape, [axis])
            case 3:
                return self.add("Slice", shape, [axis], [axis + 1])
            case 4:
                head = self.add("Slice", shape, [0], [self.random.randint(axis + 1, rank)])
                return self.add("Unsqueeze", self.add("Gather", head, axis), [0])
            case _:
                self.add("Split", shape, [1] * rank, outputs=rank, axis=0)
                return str(self.nodes[-1].output[axis])


def build_graph(seed: int) -> onnx.ModelProto:
    """Return the random graph of a seed, with an input x that has at least one open size."""
    draw = random.Random(seed)
    sizes: list[Size] = [draw.choice(_DRAWN_SIZES) for _ in range(draw.choice((1, 2, 3, 3, 3, 4)))]
    for axis in draw.sample(range(len(sizes)), min(len(sizes), draw.choice((1, 2, 2)))):
        sizes[axis] = f"n{axis}"
    writer = _Writer(draw, sizes)
    data = "x" if draw.random() < 0.8 else writer.add("Neg", "x")
    outputs = [writer.reshape(data) for _ in range(draw.choice((1, 1, 2)))]
    graph = helper.make_graph(
        writer.nodes,
        f"shape_lists_{seed}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

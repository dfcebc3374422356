"""Random graphs of slicing and what stands around it, for hypothesis."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import strategies
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnx_ops.model.contested import CONTESTED_ENDS
from sliceport.slicing import INT64_MIN

MOST_NODES = 12
OPSETS = (11, 13, 18)
_MOST_ELEMENTS = 600
_LONGEST_STEP = 100
"""onnx's shape inference ends the process where a step is near the greatest integer."""


@dataclass
class Graph:
    """A graph in the making.

    Attributes:
        shapes: The shape of each value, as long as open sizes are those that it was made for.
    """

    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def constant(self, values: list[int] | int) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, op_type: str, inputs: list[str], shapes: list[tuple[int, ...]], **attributes: Any) -> None:
        number = len(self.nodes)
        names = [f"v{number}_{i}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op_type, inputs, names, f"n{number}", **attributes))
        self.shapes.update(zip(names, shapes, strict=True))

    def add_view(self, op_type: str, source: str, axes: list[int], shape: tuple[int, ...]) -> None:
        if self.opset < 13:
            self.add(op_type, [source], [shape], axes=axes)
        else:
            self.add(op_type, [source, self.constant(axes)], [shape])

    def add_split(self, source: str, axis: int, sizes: list[int]) -> None:
        shape = self.shapes[source]
        parts = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
        if self.opset < 13:
            self.add("Split", [source], parts, axis=axis, split=sizes)
        else:
            self.add("Split", [source, self.constant(sizes)], parts, axis=axis)


def _slice(draw: st.DrawFn, graph: Graph, source: str, shape: tuple[int, ...]) -> None:
    if draw(st.booleans()):  # a plain run, which the passes see most of
        axis = draw(st.integers(0, len(shape) - 1))
        start, stop = sorted(draw(st.tuples(*[st.integers(0, shape[axis])] * 2)))
        parameters = [[start], [stop], [axis]]
        kept = (*shape[:axis], stop - start, *shape[axis + 1 :])
    else:
        drawn = draw(strategies.slice_specs(shape))
        assert drawn.axes is not None
        assert drawn.steps is not None
        steps = [max(-_LONGEST_STEP, min(step, _LONGEST_STEP)) for step in drawn.steps]
        ends = [
            INT64_MIN if step < 0 and end in CONTESTED_ENDS else end
            for end, step in zip(drawn.ends, steps, strict=True)
        ]
        spec = replace(drawn, ends=tuple(ends), steps=tuple(steps))
        parameters = [list(spec.starts), list(spec.ends), list(drawn.axes), steps]
        kept = spec.resolve(shape).output_shape
    graph.add("Slice", [source, *map(graph.constant, parameters)], [kept])


def _split(draw: st.DrawFn, graph: Graph, source: str, shape: tuple[int, ...]) -> None:
    axis = draw(st.integers(0, len(shape) - 1))
    cuts = sorted(draw(st.lists(st.integers(0, shape[axis]), min_size=1, max_size=3)))
    bounds = [0, *cuts, shape[axis]]
    graph.add_split(source, axis, [stop - start for start, stop in itertools.pairwise(bounds)])


def _siblings(draw: st.DrawFn, graph: Graph, source: str, shape: tuple[int, ...]) -> None:
    axis = draw(st.integers(0, len(shape) - 1))
    cut = draw(st.integers(0, shape[axis]))
    for start, stop in draw(st.permutations([(0, cut), (cut, shape[axis])])):
        inputs = [source, *(graph.constant([value]) for value in (start, stop, axis))]
        graph.add("Slice", inputs, [(*shape[:axis], stop - start, *shape[axis + 1 :])])


def _gather(draw: st.DrawFn, graph: Graph, source: str, shape: tuple[int, ...]) -> None:
    axes = [axis for axis, size in enumerate(shape) if size]
    if not axes:
        return
    axis = draw(st.sampled_from(axes))
    size = shape[axis]
    if draw(st.booleans()):
        index = draw(st.integers(-size, size - 1))
        graph.add("Gather", [source, graph.constant(index)], [shape[:axis] + shape[axis + 1 :]], axis=axis)
        return
    indices = list(range(size))[:: draw(st.sampled_from((1, 2, -1)))][: draw(st.integers(1, size))]
    kept = (*shape[:axis], len(indices), *shape[axis + 1 :])
    graph.add("Gather", [source, graph.constant(indices)], [kept], axis=axis)


def _concat(draw: st.DrawFn, graph: Graph, source: str, shape: tuple[int, ...]) -> None:
    axis = draw(st.integers(0, len(shape) - 1))
    others = [
        name
        for name, other in graph.shapes.items()
        if len(other) == len(shape) and other[:axis] + other[axis + 1 :] == shape[:axis] + shape[axis + 1 :]
    ]
    operands = draw(st.permutations([source, draw(st.sampled_from(others))]))
    size = sum(graph.shapes[name][axis] for name in operands)
    graph.add("Concat", list(operands), [(*shape[:axis], size, *shape[axis + 1 :])], axis=axis)


def _views(draw: st.DrawFn, graph: Graph, source: str, shape: tuple[int, ...]) -> None:
    dropped = [axis for axis, size in enumerate(shape) if size == 1]
    if len(dropped) > 0 and draw(st.booleans()):
        axis = draw(st.sampled_from(dropped))
        graph.add_view("Squeeze", source, [axis], shape[:axis] + shape[axis + 1 :])
    elif len(shape) < 5:
        axis = draw(st.integers(0, len(shape)))
        graph.add_view("Unsqueeze", source, [axis], (*shape[:axis], 1, *shape[axis:]))


def _other(draw: st.DrawFn, graph: Graph, source: str, shape: tuple[int, ...]) -> None:
    kind = draw(st.sampled_from(("Transpose", "Reshape", "Neg", "Add", "Identity", "Expand")))
    if kind == "Transpose":
        permutation = draw(st.permutations(range(len(shape))))
        graph.add(kind, [source], [tuple(shape[axis] for axis in permutation)], perm=list(permutation))
    elif kind == "Reshape" and len(shape) > 1 and 0 not in shape:
        axis = draw(st.integers(0, len(shape) - 2))
        joined = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        graph.add(kind, [source, graph.constant(list(joined))], [joined])
    elif kind == "Expand" and np.prod(shape, dtype=int) * 2 < _MOST_ELEMENTS:
        wanted = [2 if size == 1 else size for size in shape]
        graph.add(kind, [source, graph.constant(wanted)], [tuple(wanted)])
    elif kind == "Add":
        graph.add(kind, [source, source], [shape])
    else:
        graph.add("Identity" if kind == "Identity" else "Neg", [source], [shape])


@st.composite
def graphs(draw: st.DrawFn, *, is_open: bool, all_read: bool = False) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """A model of one input `x`, and the shape that it was made for.

    Args:
        is_open: Whether some sizes of the input are left open.
        all_read: Whether everything that no node reads comes out.
    """
    shape = draw(strategies.shapes(max_rank=3, max_size=8, min_size=2))
    graph = Graph(draw(st.sampled_from(OPSETS)), shapes={"x": shape})
    makers = (_slice, _slice, _slice, _split, _siblings, _gather, _concat, _views, _other)
    for _ in range(draw(st.integers(2, MOST_NODES))):
        values = [name for name, dims in graph.shapes.items() if dims and np.prod(dims, dtype=int) < _MOST_ELEMENTS]
        source = draw(st.sampled_from(values[-4:]))
        draw(st.sampled_from(makers))(draw, graph, source, graph.shapes[source])
        if len(graph.nodes) >= MOST_NODES:
            break
    read = {name for node in graph.nodes for name in node.input}
    made = [name for node in graph.nodes for name in node.output]
    leaves = [name for name in made if name not in read] or ["x"]
    some = leaves if all_read else draw(st.lists(st.sampled_from(leaves), unique=True, min_size=1))
    opened = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1)) if is_open else []
    dims = [f"d{axis}" if axis in opened else size for axis, size in enumerate(shape)]
    proto = helper.make_model(
        helper.make_graph(
            [*graph.nodes, *(helper.make_node("Identity", [name], [f"y{i}"]) for i, name in enumerate(some))],
            "random",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
            [
                helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [None] * len(graph.shapes[name]))
                for i, name in enumerate(some)
            ],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", graph.opset)],
        ir_version=8,
    )
    return proto, shape

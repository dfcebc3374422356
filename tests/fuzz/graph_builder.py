"""Random ONNX graphs of slicing, built node by node."""

from __future__ import annotations

import base64
import itertools
import random as random_module
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, parser

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.passes import PASSES
from sliceport.engines.engine import Array

from . import drawing
from .graph_nodes import LOCAL, NodeBuilder
from .modules import Case

OPSETS = (*range(1, 24), 13, 13, 17, 17, 18, 18)
HARD_NAMES = 0.25
"""The share of cases whose nodes have the names that new nodes would get."""
OTHER_DOMAIN_NAME = 0.15
"""The share of cases that call the domain of ONNX's own operators by its other name."""
SIMPLIFIED = 0.1
"""The share of cases that each optimizer takes part in."""
CHAINS = 0.15
"""The share of cases that are one chain of slices, squeezes and unsqueezes."""
_MAX_ELEMENTS = 400
_FUNCTION_OPSET = 14
_CONSTANTS = "".join(f"k{i} = Constant <value_ints = [{i}]> () " for i in range(3))
_FUNCTIONS = {
    "halves": "(x) => (y) {{ {k} a, y = Split <axis: int = @p {parts}> (x) }}",
    "crop": "(x) => (y) {{ {k} i = Constant <value_int: int = @p> () a = Unsqueeze (i, k0) y = Slice (x, k1, k2, a) }}",
    "turn": "(x) => (y) {{ {k} a = Transpose <perm: ints = @p> (x) y = Slice (a, k0, k2, k0) }}",
    "first": "(x) => (y) {{ i = Constant <value_int = 0> () y = Gather <axis: int = @p> (x, i) }}",
    "reversed": "(x, s, e, t) => (y) {{ {k} y = Slice (x, s, e, k0, t) }}",
    "sized": (
        "(x) => (y) {{ {k} a = Shape <start: int = @p> (x) b = Slice (a, k0, k1, k0) y = Slice (x, k0, b, k0) }}"
    ),
}
"""Functions whose attribute `p` is an axis, an order of axes, or not there."""
_BRANCH = "{name} () => (float[] {name}) <int64[1] {name}0 = {{{0}}}, int64[1] {name}1 = {{{1}}}, int64[1] {name}2 = {{{2}}}> {{ {name}3 = Slice ({source}, {name}0, {name}1, {name}2) {name} = Neg ({name}3) }}"  # noqa: E501
_BODY = "body (int64 {name}n, bool {name}c, float[] {name}v) => (bool {name}d, float[] {name}w, float[] {name}p) {{ {name}d = Identity ({name}c) {name}p = Slice ({source}, {0}, {1}, {2}) {name}w = Neg ({name}v) }}"  # noqa: E501


def _give_hard_names(random: random_module.Random, model: onnx.ModelProto) -> None:
    """Give nodes the names that passes would give to new ones; each name once, and some nodes none."""
    nodes = model.graph.node
    stems = [node.name for node in nodes if node.name] or ["n"]
    ends = ["", "_0", "_1", "_0_0", "_squeeze", "_0_squeeze", *(f"_{name}" for node in nodes for name in node.output)]
    names = [f"{stem}{end}" for stem in stems for end in ends[:6]] + [f"{stems[0]}{end}" for end in ends[6:]]
    names = random.sample(list(dict.fromkeys(names)), len(nodes)) if len(names) >= 2 * len(nodes) else []
    for node, name in zip(nodes, names, strict=False):
        node.name = name if random.random() < 0.9 else ""


class Builder(NodeBuilder):
    """A builder of random graphs."""

    def build(self) -> Case:
        self.opset = self.random.choice(OPSETS)
        self.ir_version = self.random.choice((3, 4, 8, 8, 9, 10)) if self.opset < _FUNCTION_OPSET else 10
        shape = drawing.shape(self.random, (1, 2, 3, 4), _MAX_ELEMENTS)
        opened = [axis for axis in range(len(shape)) if self.random.random() < 0.3]
        self.add_input("x", numbers(shape), opened)
        is_chain = not self.makers and self.random.random() < CHAINS
        self.makers = ("slice", "view", "view") if is_chain else self.makers
        for _ in range(self.random.randint(2, 10)):
            self.add_something(among=1 if is_chain else 4)
        if len(self.data) == 1:
            self.node("Identity", ["x"])
        model = self.model(self.outputs())
        if self.random.random() < HARD_NAMES:
            _give_hard_names(self.random, model)
        if self.random.random() < OTHER_DOMAIN_NAME:
            for imported in (model, *model.functions):
                for entry in imported.opset_import:
                    entry.domain = entry.domain or "ai.onnx"
        others = [[max(size + more, 1) if axis in opened else size for axis, size in enumerate(shape)]
                  for more in (1, -1) if opened]  # fmt: skip
        return {
            "model": base64.b64encode(model.SerializeToString()).decode(),
            "sizes": [shape, *others],
            "feeds": self.feeds,
            "passes": self.random.sample(list(PASSES), 1),
            "simplifies": self.random.random() < SIMPLIFIED,
        }

    def outputs(self) -> list[str]:
        """Choose most of the values that no node reads, and a few of the others."""
        read = {name for node in self.nodes for name in node.input}
        made = self.data[1:]
        leaves = [name for name in made if name not in read] or made
        outputs = [name for name in leaves if self.random.random() < 0.7] or leaves[:1]
        return outputs + [name for name in made if name in read - {*outputs} and self.random.random() < 0.15]

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        results = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(self.values[name].dtype),
                [f"{name}_{axis}" for axis in range(self.values[name].ndim)],
            )
            for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "random", self.inputs, results, self.initializers)
        domains = sorted({node.domain for node in self.nodes} - {""})
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        called = [function for name, function in self.functions.items() if any(n.op_type == name for n in self.nodes)]
        return helper.make_model(graph, opset_imports=imports, ir_version=self.ir_version, functions=called)

    def add_something(self, among: int = 4) -> None:
        """Add one node or a few, which read one of the last `among` values that can be cut."""
        sources = [name for name in self.data if self.values[name].ndim and self.values[name].size < _MAX_ELEMENTS]
        makers: list[Callable[[str], object]] = [self.add_slice] * 4
        makers += [self.add_siblings, self.add_split, self.add_split, self.add_view, self.add_view, self.add_transpose]
        if self.opset >= 4:
            makers += [self.add_concat]
        if self.opset >= 7:
            makers += [self.add_elementwise, self.add_gather, self.add_gather, self.add_repeated]
        if self.opset >= 13:
            makers += [self.add_by_shape, self.add_expand, self.add_branch, self.add_glu, self.add_loop]
        if self.opset >= _FUNCTION_OPSET:
            makers += [self.add_strided_slice, self.add_strided_slice, self.add_call, self.add_call]
        if self.makers:
            makers = [getattr(self, f"add_{name}") for name in self.makers]
        if sources:
            self.random.choice(makers)(self.random.choice(sources[-among:]))

    def add_slice(self, source: str) -> None:
        rank = self.values[source].ndim
        axes = self.random.sample(range(rank), self.random.randint(1, rank))
        if len(axes) == rank and self.random.random() < 0.3:
            axes = list(range(rank))
        bounds = [self.bounds(self.size(source, axis)) for axis in axes]
        if self.opset >= 10 and self.is_contested and self.random.random() < 0.03:
            axes, bounds = list(range(rank)), [(0, drawing.INT64_MAX, self.random.choice((1, 2, -1)))] * rank
        self.slice(source, axes, bounds)

    def slice(self, source: str, axes: list[int], bounds: list[tuple[int, int, int]]) -> None:
        rank = self.values[source].ndim
        starts, ends, steps = (list(column) for column in zip(*bounds, strict=True))
        written = [axis - rank if self.opset >= 10 and self.random.random() < 0.2 else axis for axis in axes]
        is_left_out = axes == list(range(len(axes))) and self.random.random() < 0.3
        if self.opset < 10:
            more: dict[str, Any] = {} if is_left_out else {"axes": written}
            self.node("Slice", [source], starts=starts, ends=ends, **more)
            return
        inputs = [source, self.constant(starts), self.constant(ends), "" if is_left_out else self.constant(written)]
        if any(step != 1 for step in steps) or self.random.random() < 0.2:
            inputs.append(self.constant(steps))
        while not inputs[-1]:
            inputs.pop()
        self.node("Slice", inputs)

    def add_siblings(self, source: str) -> None:
        axis = self.axis(source)
        sizes = drawing.parts(self.random, self.size(source, axis), self.random.randint(2, 4))
        runs = list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))
        self.random.shuffle(runs)
        for start, stop in runs[: self.random.randint(1, len(runs))]:
            self.slice(source, [axis], [(start, stop, 1)])

    def add_split(self, source: str) -> None:
        axis, count = self.axis(source), self.random.randint(1, 4)
        parts = drawing.parts(self.random, self.size(source, axis), count)
        self.split(source, axis, count, parts if self.random.random() < 0.6 or not self.is_contested else None)

    def split(self, source: str, axis: int, count: int, parts: list[int] | None) -> list[str]:
        if self.opset < 2:  # passes leave Split-1 alone
            return []
        attributes: dict[str, Any] = {} if axis == 0 and self.random.random() < 0.5 else {"axis": axis}
        if self.opset >= 11 and self.random.random() < 0.2:
            attributes["axis"] = axis - self.values[source].ndim
        inputs, size = [source], self.size(source, axis)
        if parts is not None and self.opset >= 13:
            inputs.append(self.constant(parts))
        elif parts is not None:
            attributes["split"] = parts
        elif size % count if self.opset < 18 else -(-size // count) * (count - 1) > size:
            return []  # onnx's shape inference ends the process on a part of less than nothing
        elif self.opset >= 18:
            attributes["num_outputs"] = count
        return self.node("Split", inputs, count, **attributes)

    def add_gather(self, source: str) -> None:
        axis = self.axis(source)
        size = self.size(source, axis)
        if not size:
            return
        indices: list[int] | int = self.random.randint(-size if self.opset >= 11 else 0, size - 1)
        if self.random.random() < 0.5:
            indices = list(range(size))[:: self.random.choice((1, 2, -1))][: self.random.randint(1, size)]
        attributes: dict[str, Any] = {} if axis == 0 and self.random.random() < 0.5 else {"axis": axis}
        self.node("Gather", [source, self.constant(indices)], **attributes)

    def add_view(self, source: str) -> None:
        rank = self.values[source].ndim
        dropped = [axis for axis in range(rank) if self.size(source, axis) == 1]
        op_type = "Squeeze" if dropped and self.random.random() < 0.5 else "Unsqueeze"
        axis = self.random.choice(dropped) if op_type == "Squeeze" else self.random.randint(0, rank)
        if self.opset < 13:
            self.node(op_type, [source], axes=[axis])
        elif op_type == "Squeeze" or rank <= 5:
            self.node(op_type, [source, self.constant([axis])])

    def add_concat(self, source: str) -> None:
        # The evaluator of onnx 1.18 also joins tensors of different ranks, which ONNX does not allow.
        others = [name for name in self.data if self.values[name].ndim == self.values[source].ndim]
        if self.random.random() < 0.5:
            others = [name for name in others if self.values[name].shape == self.values[source].shape]
        operands = [source, self.random.choice(others)]
        self.random.shuffle(operands)
        self.node("Concat", operands, axis=self.axis(source))

    def add_transpose(self, source: str) -> None:
        rank = self.values[source].ndim
        order: dict[str, Any] = {} if self.random.random() < 0.3 else {"perm": self.random.sample(range(rank), rank)}
        self.node("Transpose", [source], **order)

    def add_elementwise(self, source: str) -> None:
        op_type = self.random.choice(("Neg", "Identity", "Add", "Sigmoid", "Abs"))
        same = [name for name in self.data if self.values[name].shape == self.values[source].shape]
        self.node(op_type, [source, self.random.choice(same)] if op_type == "Add" else [source])

    def add_repeated(self, source: str) -> None:
        """Add a node again, on its own value or on another."""
        cuts = [node for node in self.nodes if node.op_type in ("Slice", "Split", "Gather") and not node.domain]
        if cuts:
            node = self.random.choice(cuts)
            attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
            read = self.random.choice((source, node.input[0]))
            self.node(node.op_type, [read, *node.input[1:]], len(node.output), **attributes)

    def add_glu(self, source: str) -> None:
        axis = self.axis(source)
        half, odd = divmod(self.size(source, axis), 2)
        if not odd:
            a, b = self.split(source, axis, 2, [half, half])
            self.node("Mul", [a, *self.node("Sigmoid", [b])])

    def add_by_shape(self, source: str) -> None:
        """Add a slice by a size that is computed from a shape, or a reshape to it."""
        axis = self.axis(source)
        if self.opset >= 15 and self.random.random() < 0.4:
            (size,) = self.node("Shape", [source], start=axis, end=axis + 1)
        else:
            (shape,) = self.node("Shape", [source])
            (size,) = self.node("Slice", [shape, *map(self.constant, ([axis], [axis + 1], [0]))])
        if self.random.random() < 0.5:
            (half,) = self.node("Div", [size, self.constant([2], plain=True)])
            self.node("Slice", [source, self.constant([0]), half, self.constant([axis])])
        elif self.values[source].size:
            (wanted,) = self.node("Concat", [size, self.constant([-1], plain=True)], axis=0)
            attributes: dict[str, Any] = {"allowzero": 1} if self.opset >= 14 and self.random.random() < 0.3 else {}
            self.node("Reshape", [source, wanted], **attributes)

    def add_reshape(self, source: str) -> None:
        """Join two axes."""
        shape = [*self.values[source].shape]
        if len(shape) > 1 and 0 not in shape:
            axis = self.random.randrange(len(shape) - 1)
            self.node(
                "Reshape", [source, self.constant([*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])]
            )

    def add_expand(self, source: str) -> None:
        wanted = [2 if size == 1 else size for size in self.values[source].shape]
        if prod(wanted) < _MAX_ELEMENTS:
            self.node("Expand", [source, self.constant(wanted, plain=True)])

    def add_strided_slice(self, source: str) -> None:
        shape = self.values[source].shape
        count = self.random.randint(0, min(len(shape) + 1, 6))
        bounds = [self.bounds(self.random.choice(shape)) for _ in range(count)]
        lists = [[bound[i] for bound in bounds] for i in range(3)]
        if all(step == 1 for step in lists[2]) and self.random.random() < 0.7:
            lists.pop()
        masks: dict[str, Any] = {name: mask for name, mask in drawing.masks(self.random, count).items() if mask}
        inputs = [source, *map(self.constant, lists)]
        self.node("StridedSlice", inputs, domain=STRIDED_SLICE_DOMAIN, **masks)

    def add_branch(self, source: str) -> None:
        """Add an If both of whose branches cut the same value to the same shape."""
        axis = self.axis(source)
        size = self.size(source, axis)
        length = self.random.randint(0, size)
        graphs = {}
        for kind in ("then", "else"):
            start = self.random.randint(0, size - length)
            text = _BRANCH.format(start, start + length, axis, name=self.name(kind), source=source)
            graphs[f"{kind}_branch"] = parser.parse_graph(text)
        total = self.node("ReduceMax", ["x"], keepdims=0)
        self.node("If", self.node("Cast", total, to=TensorProto.BOOL), **graphs)

    def add_loop(self, source: str) -> None:
        """Add a Loop whose body cuts a value from outside and negates the carried one."""
        axis = self.axis(source)
        start, stop, _ = self.bounds(self.size(source, axis))
        listed = [self.constant([value], plain=True) for value in (start, stop, axis)]
        body = parser.parse_graph(_BODY.format(*listed, name=self.name("b"), source=source))
        self.node("Loop", [self.constant(2, plain=True), "", source], 2, body=body)

    def add_call(self, source: str) -> None:
        kind = self.random.choice(list(_FUNCTIONS))
        rank = self.values[source].ndim
        if kind not in self.functions:
            parts = ", num_outputs = 2" if self.opset >= 18 else ""
            given = "" if kind == "reversed" else "<p>"
            head = f'<domain: "{LOCAL}", opset_import: ["": {self.opset}]> {kind} {given} '
            text = _FUNCTIONS[kind].format(k=_CONSTANTS, parts=parts)
            self.functions[kind] = parser.parse_function(head + text)
        inputs = [source]
        attributes: dict[str, Any] = {"p": self.axis(source)}
        if kind == "turn":
            attributes = {"p": self.random.sample(range(rank), rank)}
        elif kind == "reversed":
            inputs += [self.constant([value]) for value in self.bounds(self.size(source, 0))]
            attributes = {}
        self.node(kind, inputs, domain=LOCAL, **attributes)


def numbers(shape: Sequence[int]) -> Array:
    """Return different numbers from 1 on."""
    return np.arange(1, prod(shape) + 1, dtype=np.float32).reshape(shape)

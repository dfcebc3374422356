"""Random ONNX graphs of slicing, before and after every pass.

Graphs hold what passes meet: functions whose attributes calls set, initializers that a caller may replace, nodes that
no node reads, empty tensors, `ov_ext::StridedSlice`, branches and loops, nodes that engines read differently, every
operator set. A case is right if onnxruntime's CPU provider computes the same before and after, if the result loads and
is well-formed, and if a second run changes nothing.
"""

from __future__ import annotations

import base64
import importlib.util
import itertools
import random as random_module
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any
from unittest import mock

import inferred_once
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import oracle
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from running import as_arrays
from sessions import open_unoptimized

from onnx_ops import strided_slice_op
from onnx_ops.infer import inference
from onnx_ops.model.contested import CONTESTED_ENDS
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN, standard_opset
from onnx_ops.model.io import from_proto
from onnx_ops.model.nodes import MARK
from onnx_ops.passes import PASSES, rewrite, simplify
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.harden_directml import harden_for_directml
from onnx_ops.passes.harden_portable import harden_portably
from onnx_ops.passes.optimizers import MIN_OPSET_OF_ONNXSLIM, ONNXSLIM, OPTIMIZERS
from sliceport.defects.profiles import PROFILES
from sliceport.hardening import Hardening

from . import drawing
from .modules import Case
from .shrinking import smaller_models

NAME = "graphs"
BUDGET = 60
Array = npt.NDArray[Any]
Outcomes = list[list[tuple[tuple[int, ...], bytes]] | str | None] | str
OPSETS = (*range(1, 24), 13, 13, 17, 17, 18, 18)
REUSED_BUFFER = "Shape mismatch attempting to re-use buffer"
"""onnxruntime plans memory by the symbols of shapes, and sometimes gives one symbol to sizes that differ."""
SHAPE_INFERENCE = "[ShapeInferenceError]"
"""onnxruntime infers other shapes of nodes that engines read differently than it computes, where it knows enough."""
HARD_NAMES = 0.25
"""The share of cases whose nodes have the names that new nodes would get."""
OTHER_DOMAIN_NAME = 0.15
"""The share of cases that call the domain of ONNX's own operators by its other name."""
SIMPLIFIED = 0.1
"""The share of cases that each optimizer takes part in."""
_MAX_MESSAGE = 600
_MAX_ELEMENTS = 400
_FUNCTION_OPSET = 14
_LOCAL = "local"
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


def generate(random: random_module.Random) -> Case:
    """Return a model, the shapes and values to run it with, and the passes to try by themselves."""
    return Builder(random).build()


@dataclass
class Builder:
    """A graph in the making.

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

    def build(self) -> Case:
        self.opset = self.random.choice(OPSETS)
        self.ir_version = self.random.choice((3, 4, 8, 8, 9, 10)) if self.opset < _FUNCTION_OPSET else 10
        shape = drawing.shape(self.random, (1, 2, 3, 4), _MAX_ELEMENTS)
        opened = [axis for axis in range(len(shape)) if self.random.random() < 0.3]
        self.add_input("x", numbers(shape), opened)
        for _ in range(self.random.randint(2, 10)):
            self.add_something()
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
            "optimizers": [name for name in OPTIMIZERS if self.random.random() < SIMPLIFIED],
        }

    def add_input(self, name: str, array: Array, opened: Sequence[int] = ()) -> None:
        """Add an input, whose sizes on the `opened` axes are symbols."""
        dims = [f"d{axis}" if axis in opened else size for axis, size in enumerate(array.shape)]
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
        self.values[name] = array
        self.data.append(name)

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

    def add_something(self) -> None:
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
            self.random.choice(makers)(self.random.choice(sources[-4:]))

    # what nodes read

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
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(_LOCAL, 1)]
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

    # nodes

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
        operands = [source, self.random.choice(self.data)]
        same = [name for name in self.data if self.values[name].shape == self.values[source].shape]
        if self.random.random() < 0.5:
            operands[1] = self.random.choice(same)
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
            head = f'<domain: "{_LOCAL}", opset_import: ["": {self.opset}]> {kind} {given} '
            text = _FUNCTIONS[kind].format(k=_CONSTANTS, parts=parts)
            self.functions[kind] = parser.parse_function(head + text)
        inputs = [source]
        attributes: dict[str, Any] = {"p": self.axis(source)}
        if kind == "turn":
            attributes = {"p": self.random.sample(range(rank), rank)}
        elif kind == "reversed":
            inputs += [self.constant([value]) for value in self.bounds(self.size(source, 0))]
            attributes = {}
        self.node(kind, inputs, domain=_LOCAL, **attributes)


def numbers(shape: Sequence[int]) -> Array:
    """Return different numbers from 1 on."""
    return np.arange(1, prod(shape) + 1, dtype=np.float32).reshape(shape)


# running


@mock.patch.object(inference, "_propagate", inferred_once.propagate)  # the ways come by the same models
def check(case: Case) -> str | None:
    """Return a complaint if a pass changes a result or leaves work to a second run."""
    before = onnx.ModelProto.FromString(base64.b64decode(case["model"]))
    expected = _outcomes(before, case)
    if isinstance(expected, str) or not any(expected):
        return None  # onnxruntime does not run it
    is_well_formed = _complaint(before) is None
    seen_before: dict[bytes, tuple[str | None, Outcomes]] = {}  # by ways that came to the same model
    ways = {"default": None, "all": tuple(PASSES), **{name: (name,) for name in case["passes"]}}
    optimizers = [(f"simplify by {name}", (name,)) for name in case.get("optimizers", ()) if _takes(name, before)]
    for way, names in (*ways.items(), ("harden", None), ("portable", None), *optimizers):
        model = from_proto(before)
        is_simplified = way.startswith("simplify")
        try:
            if is_simplified:
                model, _ = simplify(model, optimizers=names or ())
            elif way == "harden":
                harden_for_directml(model)
            elif way == "portable":
                _write_portably(model)
            else:
                rewrite(model) if names is None else rewrite(model, names)
        except Exception as error:
            return f"{way}: {type(error).__name__}: {error}"
        after = ir.serde.serialize_model(model)
        for node in model.graph.all_nodes():
            if any(reader.graph is None for output in node.outputs for reader in output.consumers()):
                return f"{way}: {node.op_type} {node.name!r} is still read by a node that is in no graph"
        written = after.SerializeToString(deterministic=True)
        if written not in seen_before:
            seen_before[written] = _complaint(after) if is_well_formed else None, _outcomes(after, case)
        complaint, got = seen_before[written]
        if complaint is not None:
            return f"{way}: not well-formed: {complaint}"
        if isinstance(got, str):
            if REUSED_BUFFER in got or (SHAPE_INFERENCE in got and _is_contested(before)):
                continue
            return f"{way}: does not load: {got}"
        for i, (wanted, seen) in enumerate(zip(expected, got, strict=True)):
            if isinstance(seen, str) and REUSED_BUFFER in seen:
                continue
            if wanted is not None and not isinstance(wanted, str) and wanted != seen and _is_sound(before, case, i):
                shown = seen if isinstance(seen, str) else [shape for shape, _ in seen or ()]
                return f"{way}: other values: {[shape for shape, _ in wanted]} became {shown}"
        problem = None if is_simplified else _second_run(way, names, after)
        if problem is not None:
            return problem
    return None


def _write_portably(model: ir.Model) -> Hardening:
    return harden_portably(model, PROFILES["portable"], raises_opset=False)[1]


def _takes(optimizer: str, proto: onnx.ModelProto) -> bool:
    """Whether an optimizer is installed and takes a model of this operator set."""
    opset = standard_opset({entry.domain: entry.version for entry in proto.opset_import})
    is_too_old = optimizer == ONNXSLIM and opset < MIN_OPSET_OF_ONNXSLIM
    return importlib.util.find_spec(optimizer) is not None and not is_too_old


def _is_contested(proto: onnx.ModelProto) -> bool:
    """Whether engines read a node of a model differently."""
    model = from_proto(proto)
    Analysis(model, folding=True)  # which marks them
    return any(MARK in node.meta for node in model.graph.all_nodes())


def _second_run(way: str, names: tuple[str, ...] | None, after: onnx.ModelProto) -> str | None:
    """Return a complaint if a second run changes the file that a first one wrote."""
    again = from_proto(after)
    whole = ir.serde.serialize_model(again)
    if way in ("harden", "portable"):
        report = harden_for_directml(again) if way == "harden" else _write_portably(again)
        changes = [change for change in report.changes if change.replacement is not None]
        if changes:
            return f"{way}: a second run changes {changes[0].op} {changes[0].node!r}"
    else:
        rewriting = rewrite(again) if names is None else rewrite(again, names)
        for name, done in rewriting.changes.items():
            if done:
                return f"{way}: a second run changes {done[0].op} {done[0].node!r} by {name}: {done[0].replacement}"
    if ir.serde.serialize_model(again) != whole:
        return f"{way}: a second run changes the file"
    return None


def _complaint(proto: onnx.ModelProto) -> str | None:
    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        return " ".join(str(error).split())[:200]
    return None


def _runnable(proto: onnx.ModelProto) -> onnx.ModelProto:
    if not any(entry.domain == "ov_ext" for entry in proto.opset_import):
        return proto
    model = from_proto(proto)
    strided_slice_op.embed_function(model)
    made: onnx.ModelProto = ir.serde.serialize_model(model)
    return made


def _feeds(case: Case, names: set[str]) -> list[dict[str, npt.NDArray[Any]]]:
    """Return the feeds: each shape by itself, and with other values for replaceable initializers."""
    replaced = {name: np.array(values[0], np.int64) for name, values in case["feeds"].items() if name in names}
    return [
        {"x": numbers(sizes), **more}
        for sizes in case["sizes"]
        for more in [{}, *([replaced] if case["feeds"] else [])]
    ]


def _is_sound(proto: onnx.ModelProto, case: Case, index: int) -> bool:
    """Whether a model takes what it is fed; onnxruntime joins what does not fit, and leaves memory unwritten."""
    inputs = {value.name for value in proto.graph.input}
    try:
        ReferenceEvaluator(_runnable(proto)).run(None, _feeds(case, inputs)[index])
    except Exception:
        return False
    return True


def _outcomes(proto: onnx.ModelProto, case: Case) -> Outcomes:
    """Return the results or the error of each feed; only the error if the model does not load."""
    try:
        session = open_unoptimized(_runnable(proto))
    except Exception as error:
        return " ".join(str(error).split())[:_MAX_MESSAGE]
    names = {value.name for value in session.get_overridable_initializers()}
    found: list[list[tuple[tuple[int, ...], bytes]] | str | None] = []
    for feed in _feeds(case, names):
        try:
            results = session.run(None, feed)
        except Exception as error:
            found.append(" ".join(str(error).split())[:_MAX_MESSAGE])
        else:
            found.append([(array.shape, array.tobytes()) for array in as_arrays(results)])
    return found if not all(isinstance(one, str) for one in found) else str(found[0])


def shrink(case: Case) -> Iterator[Case]:
    for option in ("optimizers", "passes", "sizes"):
        for i in range(len(case[option])):
            if option != "sizes" or len(case[option]) > 1:
                yield {**case, option: case[option][:i] + case[option][i + 1 :]}
    proto = onnx.ModelProto.FromString(base64.b64decode(case["model"]))
    for smaller in smaller_models(proto):
        yield {**case, "model": base64.b64encode(smaller.SerializeToString()).decode()}

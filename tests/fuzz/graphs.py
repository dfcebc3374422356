"""Random ONNX graphs of slicing, before and after every pass.

Graphs hold what passes meet: functions whose attributes calls set, initializers that a caller may replace, nodes that
nothing reads, empty tensors, `ov_ext::StridedSlice`, branches and loops, nodes that engines read differently, every
operator set. A case is right if on onnxruntime's CPU provider all that came out before comes out after, if the result
loads and is well-formed, and if a second run changes nothing.
"""

from __future__ import annotations

import base64
import importlib.util
import itertools
import random as random_module
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any
from unittest import mock

import inferred_once
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from running import as_arrays
from sessions import open_unoptimized

from onnx_ops import strided_slice_op
from onnx_ops.infer import inference
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.io import from_proto
from onnx_ops.model.nodes import MARK
from onnx_ops.passes import PASSES, harden_for_directml, rewrite, simplify
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.optimizers import MIN_OPSET_OF_ONNXSLIM, ONNXSLIM, OPTIMIZERS

NAME = "graphs"
BUDGET = 60
Case = dict[str, Any]
Shape = tuple[int, ...]
Outcomes = list[list[tuple[Shape, bytes]] | str | None] | str
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
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


def _give_hard_names(random: random_module.Random, model: onnx.ModelProto) -> None:
    """Names that passes make of those of nodes and outputs, for other nodes: each once, and none for some nodes."""
    nodes = model.graph.node
    stems = [node.name for node in nodes if node.name] or ["n"]
    ends = ["", "_0", "_1", "_0_0", "_squeeze", "_0_squeeze", *(f"_{name}" for node in nodes for name in node.output)]
    names = [f"{stem}{end}" for stem in stems for end in ends[:6]] + [f"{stems[0]}{end}" for end in ends[6:]]
    names = random.sample(list(dict.fromkeys(names)), len(nodes)) if len(names) >= 2 * len(nodes) else []
    for node, name in zip(nodes, names, strict=False):
        node.name = name if random.random() < 0.9 else ""


def generate(random: random_module.Random) -> Case:
    """A model, the shapes and values to run it with, and the passes to try by themselves."""
    return _Builder(random).build()


@dataclass
class _Builder:
    """A graph in the making; shapes are those that come out for the sizes that it is made for."""

    random: random_module.Random
    opset: int = 17
    ir_version: int = 8
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    functions: dict[str, onnx.FunctionProto] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    feeds: dict[str, list[list[int]]] = field(default_factory=dict)
    count: int = 0

    def build(self) -> Case:
        self.opset = self.random.choice(OPSETS)
        self.ir_version = self.random.choice((3, 4, 8, 8, 9, 10)) if self.opset < _FUNCTION_OPSET else 10
        shape = tuple(self.random.choice((1, 2, 2, 3, 4, 5, 6, 7, 0)) for _ in range(self.random.randint(1, 4)))
        opened = [axis for axis in range(len(shape)) if self.random.random() < 0.3]
        dims = [f"d{axis}" if axis in opened else size for axis, size in enumerate(shape)]
        self.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, dims))
        self.shapes["x"] = shape
        for _ in range(self.random.randint(2, 10)):
            self.add_something()
        read = {name for node in self.nodes for name in node.input}
        made = [name for name in self.shapes if name != "x"]
        leaves = [name for name in made if name not in read] or made or ["x"]
        outputs = [name for name in leaves if self.random.random() < 0.7] or leaves[:1]
        inner = [name for name in made if name in read and self.random.random() < 0.15]
        outputs = list(dict.fromkeys(outputs + inner))
        if outputs == ["x"]:
            self.node("Identity", ["x"], [shape])
            outputs = [name for name in self.shapes if name != "x"]
        sizes = [list(shape)]
        if opened:
            sizes += [[size + 1 if axis in opened else size for axis, size in enumerate(shape)]]
            sizes += [[max(size - 1, 1) if axis in opened else size for axis, size in enumerate(shape)]]
        made_model = self.model(outputs)
        if self.random.random() < HARD_NAMES:
            _give_hard_names(self.random, made_model)
        if self.random.random() < OTHER_DOMAIN_NAME:
            for imported in (made_model, *made_model.functions):
                for entry in imported.opset_import:
                    entry.domain = entry.domain or "ai.onnx"
        return {
            "model": base64.b64encode(made_model.SerializeToString()).decode(),
            "sizes": sizes,
            "feeds": self.feeds,
            "passes": self.random.sample(list(PASSES), 1),
            "optimizers": [name for name in OPTIMIZERS if self.random.random() < SIMPLIFIED],
        }

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        results = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"{name}_{axis}" for axis in range(len(shape))])
            for name in outputs
            for shape in [self.shapes[name]]
        ]
        graph = helper.make_graph(self.nodes, "random", self.inputs, results, self.initializers)
        imports = [helper.make_opsetid("", self.opset)]
        domains = {node.domain for node in self.nodes if node.domain}
        imports += [
            helper.make_opsetid(domain, 1) for domain in sorted(domains | ({_LOCAL} if self.functions else set()))
        ]
        return helper.make_model(
            graph, opset_imports=imports, ir_version=self.ir_version, functions=list(self.functions.values())
        )

    def add_something(self) -> None:
        sources = [name for name, shape in self.shapes.items() if shape and prod(shape) < _MAX_ELEMENTS]
        if not sources:
            return
        source = self.random.choice(sources[-4:])
        makers: list[Callable[[str, Shape], None]] = [self.add_slice] * 4
        makers += [self.add_siblings, self.add_split, self.add_split, self.add_view, self.add_view, self.add_transpose]
        if self.opset >= 4:
            makers += [self.add_concat]
        if self.opset >= 7:
            makers += [self.add_elementwise, self.add_gather, self.add_gather, self.add_repeated]
        if self.opset >= 13:
            makers += [self.add_by_shape, self.add_expand, self.add_branch, self.add_glu, self.add_loop]
        if self.opset >= _FUNCTION_OPSET:
            makers += [self.add_strided_slice, self.add_strided_slice, self.add_call, self.add_call]
        self.random.choice(makers)(source, self.shapes[source])

    # what nodes read

    def name(self, kind: str = "v") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def node(
        self, op_type: str, inputs: list[str], shapes: list[Shape], domain: str = "", **attributes: Any
    ) -> list[str]:
        names = [self.name() for _ in shapes]
        label = self.name("n") if self.random.random() < 0.9 else ""
        self.nodes.append(helper.make_node(op_type, inputs, names, label, domain=domain, **attributes))
        self.shapes.update(zip(names, shapes, strict=True))
        return names

    def constant(self, values: list[int] | int, *, plain: bool = False) -> str:
        """An initializer, a Constant, one that a caller may replace, or what is computed from others."""
        array = np.array(values, np.int64)
        kind = "initializer" if plain else self.random.choice(("initializer", "initializer", "node", "default", "sum"))
        name = self.name("c")
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

    def bounds(self, size: int) -> tuple[int, int, int]:
        if self.random.random() < 0.6:
            start, stop = sorted((self.random.randint(0, size), self.random.randint(0, size)))
            return start, stop if self.random.random() < 0.8 else INT64_MAX, 1
        step = self.random.choice((1, 1, 2, 3, -1, -1, -2, 100, -100)) if self.opset >= 10 else 1
        far = (INT64_MAX, INT64_MIN, 2**31 - 1, -100, 100)
        start = self.random.choice((*range(-size - 1, size + 2), *far))
        stop = self.random.choice((*range(-size - 1, size + 2), *far))
        return start, stop, step

    # nodes

    def add_slice(self, source: str, shape: Shape) -> None:
        axes = self.random.sample(range(len(shape)), self.random.randint(1, len(shape)))
        bounds = [self.bounds(shape[axis]) for axis in axes]
        if len(axes) == len(shape) and self.random.random() < 0.3:
            axes = list(range(len(shape)))
        if self.opset >= 10 and self.random.random() < 0.03:
            axes, bounds = list(range(len(shape))), [(0, INT64_MAX, self.random.choice((1, 2, -1)))] * len(shape)
        self.slice(source, shape, axes, bounds)

    def slice(self, source: str, shape: Shape, axes: list[int], bounds: list[tuple[int, int, int]]) -> None:
        kept = list(shape)
        for axis, (start, stop, step) in zip(axes, bounds, strict=True):
            kept[axis] = _kept(start, stop, step, shape[axis])
        starts, ends, steps = (list(column) for column in zip(*bounds, strict=True))
        written = [axis - len(shape) if self.opset >= 10 and self.random.random() < 0.2 else axis for axis in axes]
        is_left_out = axes == list(range(len(axes))) and self.random.random() < 0.3
        if self.opset < 10:
            more: dict[str, Any] = {} if is_left_out else {"axes": written}
            self.node("Slice", [source], [tuple(kept)], starts=starts, ends=ends, **more)
            return
        inputs = [source, self.constant(starts), self.constant(ends), "" if is_left_out else self.constant(written)]
        if any(step != 1 for step in steps) or self.random.random() < 0.2:
            inputs.append(self.constant(steps))
        while not inputs[-1]:
            inputs.pop()
        self.node("Slice", inputs, [tuple(kept)])

    def add_siblings(self, source: str, shape: Shape) -> None:
        axis = self.random.randrange(len(shape))
        cuts = sorted(self.random.randint(0, shape[axis]) for _ in range(self.random.randint(1, 3)))
        runs = list(itertools.pairwise([0, *cuts, shape[axis]]))
        self.random.shuffle(runs)
        for start, stop in runs[: self.random.randint(1, len(runs))]:
            self.slice(source, shape, [axis], [(start, stop, 1)])

    def add_split(self, source: str, shape: Shape) -> None:
        axis = self.random.randrange(len(shape))
        size, count = shape[axis], self.random.randint(1, 4)
        if size % count == 0 and self.random.random() < 0.3:
            parts, written = [size // count] * count, False
        elif self.opset >= 18 and self.random.random() < 0.3:
            chunk = -(-size // count)
            parts, written = [chunk] * (count - 1) + [size - chunk * (count - 1)], False
            if parts[-1] < 0:
                return
        else:
            cuts = sorted(self.random.randint(0, size) for _ in range(count - 1))
            parts, written = [stop - start for start, stop in itertools.pairwise([0, *cuts, size])], True
        self.split(source, shape, axis, parts, written=written)

    def split(self, source: str, shape: Shape, axis: int, parts: list[int], *, written: bool) -> list[str]:
        shapes = [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]
        attributes: dict[str, Any] = {} if axis == 0 and self.random.random() < 0.5 else {"axis": axis}
        if self.opset >= 11 and self.random.random() < 0.2:
            attributes["axis"] = axis - len(shape)
        inputs = [source]
        if written and self.opset >= 13:
            inputs.append(self.constant(parts))
        elif written:
            attributes["split"] = parts
        elif self.opset >= 18:
            attributes["num_outputs"] = len(parts)
        if self.opset < 2:  # Split-1 is of no use here
            return []
        return self.node("Split", inputs, shapes, **attributes)

    def add_gather(self, source: str, shape: Shape) -> None:
        axes = [axis for axis, size in enumerate(shape) if size]
        if not axes:
            return
        axis = self.random.choice(axes)
        size = shape[axis]
        first = self.random.randint(-size if self.opset >= 11 else 0, size - 1)
        indices: list[int] | int = first
        kept: Shape = ()
        if self.random.random() < 0.5:
            listed = list(range(size))[:: self.random.choice((1, 2, -1))][: self.random.randint(1, size)]
            indices, kept = listed, (len(listed),)
        attributes: dict[str, Any] = {} if axis == 0 and self.random.random() < 0.5 else {"axis": axis}
        self.node(
            "Gather", [source, self.constant(indices)], [(*shape[:axis], *kept, *shape[axis + 1 :])], **attributes
        )

    def add_view(self, source: str, shape: Shape) -> None:
        dropped = [axis for axis, size in enumerate(shape) if size == 1]
        op_type = "Squeeze" if dropped and self.random.random() < 0.5 else "Unsqueeze"
        if op_type == "Unsqueeze" and len(shape) > 5:
            return
        axis = self.random.choice(dropped) if op_type == "Squeeze" else self.random.randint(0, len(shape))
        kept = (*shape[:axis], *shape[axis + 1 :]) if op_type == "Squeeze" else (*shape[:axis], 1, *shape[axis:])
        if self.opset < 13:
            self.node(op_type, [source], [kept], axes=[axis])
        else:
            self.node(op_type, [source, self.constant([axis])], [kept])

    def add_concat(self, source: str, shape: Shape) -> None:
        axis = self.random.randrange(len(shape))
        rest = (*shape[:axis], *shape[axis + 1 :])
        others = [
            name
            for name, other in self.shapes.items()
            if len(other) == len(shape) and (*other[:axis], *other[axis + 1 :]) == rest
        ]
        operands = [source, self.random.choice(others)]
        self.random.shuffle(operands)
        size = sum(self.shapes[name][axis] for name in operands)
        self.node("Concat", operands, [(*shape[:axis], size, *shape[axis + 1 :])], axis=axis)

    def add_transpose(self, source: str, shape: Shape) -> None:
        order = self.random.sample(range(len(shape)), len(shape))
        if self.random.random() < 0.3:
            self.node("Transpose", [source], [shape[::-1]])
        else:
            self.node("Transpose", [source], [tuple(shape[axis] for axis in order)], perm=order)

    def add_elementwise(self, source: str, shape: Shape) -> None:
        op_type = self.random.choice(("Neg", "Identity", "Add", "Sigmoid", "Abs"))
        if op_type == "Add":
            others = [name for name, other in self.shapes.items() if other == shape]
            self.node("Add", [source, self.random.choice(others)], [shape])
        else:
            self.node(op_type, [source], [shape])

    def add_repeated(self, source: str, _: Shape) -> None:
        """A node again, of the same value or of another of the same shape."""
        movable = [
            node
            for node in self.nodes
            if node.op_type in ("Slice", "Split", "Gather") and not node.domain and node.output[0] in self.shapes
        ]
        if movable:
            node = self.random.choice(movable)
            shapes = [self.shapes[name] for name in node.output]
            attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
            is_same = self.shapes.get(node.input[0]) == self.shapes[source]
            self.node(node.op_type, [source if is_same else node.input[0], *node.input[1:]], shapes, **attributes)

    def add_glu(self, source: str, shape: Shape) -> None:
        axis = self.random.randrange(len(shape))
        if shape[axis] % 2 == 0:
            half = shape[axis] // 2
            a, b = self.split(source, shape, axis, [half, half], written=True)
            (gate,) = self.node("Sigmoid", [b], [self.shapes[b]])
            self.node("Mul", [a, gate], [self.shapes[a]])

    def add_by_shape(self, source: str, shape: Shape) -> None:
        """A slice by what is computed from a shape, or a reshape by it."""
        axis = self.random.randrange(len(shape))
        more = {"start": axis, "end": axis + 1} if self.opset >= 15 and self.random.random() < 0.4 else {}
        (listed,) = self.hidden("Shape", [source], 1, **more)
        if not more:
            (listed,) = self.hidden("Slice", [listed, *map(self.constant, ([axis], [axis + 1], [0]))], 1)
        if self.random.random() < 0.5:
            (half,) = self.hidden("Div", [listed, self.constant([2], plain=True)], 1)
            inputs = [source, self.constant([0]), half, self.constant([axis])]
            self.node("Slice", inputs, [(*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])])
        elif 0 not in shape:
            parts = [listed, self.constant([-1], plain=True)]
            (wanted,) = self.hidden("Concat", parts, 1, axis=0)
            attributes: dict[str, Any] = {"allowzero": 1} if self.opset >= 14 and self.random.random() < 0.3 else {}
            self.node("Reshape", [source, wanted], [(shape[axis], prod(shape) // shape[axis])], **attributes)

    def hidden(self, op_type: str, inputs: list[str], count: int, **attributes: Any) -> list[str]:
        """A node whose outputs are integers, which nothing else cuts."""
        names = [self.name("s") for _ in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, names, self.name("n"), **attributes))
        return names

    def add_expand(self, source: str, shape: Shape) -> None:
        wanted = [2 if size == 1 else size for size in shape]
        if prod(wanted) < _MAX_ELEMENTS:
            self.node("Expand", [source, self.constant(wanted, plain=True)], [tuple(wanted)])

    def add_strided_slice(self, source: str, shape: Shape) -> None:
        """Axes in order, new ones among them, some dropped, the rest whole or behind an ellipsis."""
        begin: list[int] = []
        end: list[int] = []
        strides: list[int] = []
        kept: list[int] = []
        masks: dict[str, list[int]] = {name: [] for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")}
        axis, has_ellipsis = 0, False
        while axis < len(shape) and len(begin) < 6 and self.random.random() < 0.8:
            kind = self.random.choice(("slice", "slice", "slice", "new", "shrink", "ellipsis"))
            if (kind == "shrink" and not shape[axis]) or (kind == "ellipsis" and has_ellipsis):
                continue
            start, stop, step = self.bounds(shape[axis])
            bits = [self.random.random() < 0.2, self.random.random() < 0.2]
            if kind == "slice":
                first = None if bits[0] else start
                last = None if bits[1] else stop
                kept.append(_kept_by_python(first, last, step, shape[axis]))
                axis += 1
            elif kind == "new":
                kept.append(1)
            elif kind == "shrink":
                start = self.random.randint(-shape[axis], shape[axis] - 1)
                axis += 1
            else:
                has_ellipsis = True
                left = self.random.randint(0, len(shape) - axis)
                kept += shape[axis : axis + left]
                rest = len(shape) - axis - left
                for position in range(rest):  # whole axes behind, one entry each
                    kept.append(shape[axis + left + position])
            begin.append(start)
            end.append(stop)
            strides.append(step)
            for name, bit in zip(masks, (*bits, kind == "new", kind == "shrink", kind == "ellipsis"), strict=True):
                masks[name].append(int(bit))
            if kind == "ellipsis":
                for _ in range(rest):
                    begin.append(0)
                    end.append(0)
                    strides.append(1)
                    for name, ignored in zip(masks, (1, 1, 0, 0, 0), strict=True):
                        masks[name].append(ignored)
                axis = len(shape)
        kept += shape[axis:]
        attributes = {f"{name}_mask": bits for name, bits in masks.items() if any(bits)}
        inputs = [source, self.constant(begin), self.constant(end)]
        if any(step != 1 for step in strides) or self.random.random() < 0.3:
            inputs.append(self.constant(strides))
        self.node("StridedSlice", inputs, [tuple(kept)], domain="ov_ext", **attributes)

    def add_branch(self, source: str, shape: Shape) -> None:
        """An If of which both branches cut the same value to the same shape."""
        axis = self.random.randrange(len(shape))
        length = self.random.randint(0, shape[axis])
        graphs = {}
        for kind in ("then", "else"):
            start = self.random.randint(0, shape[axis] - length)
            inner = _Builder(self.random, self.opset, self.ir_version, count=self.count + 100)
            listed = [inner.constant([value], plain=True) for value in (start, start + length, axis)]
            name, cut = f"{kind}{inner.count}", f"cut{inner.count}"
            nodes = [helper.make_node("Slice", [source, *listed], [cut]), helper.make_node("Neg", [cut], [name])]
            result = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            graphs[f"{kind}_branch"] = helper.make_graph(nodes, kind, [], [result], inner.initializers)
            self.count = inner.count
        (total,) = self.hidden("ReduceMax", ["x"], 1, keepdims=0)
        (condition,) = self.hidden("Cast", [total], 1, to=TensorProto.BOOL)
        self.node("If", [condition], [(*shape[:axis], length, *shape[axis + 1 :])], **graphs)

    def add_loop(self, source: str, shape: Shape) -> None:
        """A Loop whose body cuts a value from outside and negates what it carries."""
        n, c, v, d, w, part = (self.name("b") for _ in range(6))
        axis = self.random.randrange(len(shape))
        start, stop, _ = self.bounds(shape[axis])
        listed = [self.constant([value], plain=True) for value in (start, stop, axis)]
        body = helper.make_graph(
            [
                helper.make_node("Identity", [c], [d]),
                helper.make_node("Slice", [source, *listed], [part]),
                helper.make_node("Neg", [v], [w]),
            ],
            "body",
            [
                helper.make_tensor_value_info(n, TensorProto.INT64, []),
                helper.make_tensor_value_info(c, TensorProto.BOOL, []),
                helper.make_tensor_value_info(v, TensorProto.FLOAT, None),
            ],
            [
                helper.make_tensor_value_info(d, TensorProto.BOOL, []),
                helper.make_tensor_value_info(w, TensorProto.FLOAT, None),
                helper.make_tensor_value_info(part, TensorProto.FLOAT, None),
            ],
        )
        kept = (*shape[:axis], _kept(start, stop, 1, shape[axis]), *shape[axis + 1 :])
        self.node("Loop", [self.constant(2, plain=True), "", source], [shape, (2, *kept)], body=body)

    def add_call(self, source: str, shape: Shape) -> None:
        """A call of a function of which an attribute is the axis that it cuts, or another number."""
        axis = self.random.randrange(len(shape))
        kind = self.random.choice(("halves", "crop", "turn", "first", "reversed", "sized"))
        kept = list(shape)
        inputs = [source]
        attributes: dict[str, Any] = {"p": axis}
        body: list[onnx.NodeProto] = [helper.make_node("Constant", [], [f"k{i}"], value_ints=[i]) for i in range(3)]
        if kind == "halves":
            if shape[axis] % 2:
                return
            kept[axis] //= 2
            count: dict[str, Any] = {"num_outputs": 2} if self.opset >= 18 else {}
            body.append(_with_reference(helper.make_node("Split", ["x"], ["a", "y"], **count), "axis"))
        elif kind == "crop":
            kept[axis] = _kept(1, 2, 1, shape[axis])
            body.append(_with_reference(helper.make_node("Constant", [], ["axis"]), "value_int"))
            body.append(helper.make_node("Unsqueeze", ["axis", "k0"], ["axes"]))
            body.append(helper.make_node("Slice", ["x", "k1", "k2", "axes"], ["y"]))
        elif kind == "turn":
            order = self.random.sample(range(len(shape)), len(shape))
            kept = [shape[i] for i in order]
            kept[0] = _kept(0, 2, 1, kept[0])
            body.append(_with_reference(helper.make_node("Transpose", ["x"], ["a"]), "perm", onnx.AttributeProto.INTS))
            body.append(helper.make_node("Slice", ["a", "k0", "k2", "k0"], ["y"]))
            attributes = {"p": order}
        elif kind == "first":
            if not shape[axis]:
                return
            del kept[axis]
            body.append(helper.make_node("Constant", [], ["i"], value_int=0))
            body.append(_with_reference(helper.make_node("Gather", ["x", "i"], ["y"]), "axis"))
        elif kind == "reversed":
            start, stop, step = self.bounds(shape[0])
            kept[0] = _kept(start, stop, step, shape[0])
            inputs += [self.constant([value]) for value in (start, stop, step)]
            attributes = {}
            body.append(helper.make_node("Slice", ["x", "s", "e", "k0", "t"], ["y"]))
        else:
            if self.opset < 15:
                return
            kept[0] = min(shape[axis], shape[0])
            body.append(_with_reference(helper.make_node("Shape", ["x"], ["a"]), "start"))
            body.append(helper.make_node("Slice", ["a", "k0", "k1", "k0"], ["b"]))
            body.append(helper.make_node("Slice", ["x", "k0", "b", "k0"], ["y"]))
        given = ["x", "s", "e", "t"][: len(inputs)]
        if kind not in self.functions:
            self.functions[kind] = helper.make_function(
                _LOCAL, kind, given, ["y"], body, [helper.make_opsetid("", self.opset)], list(attributes)
            )
        self.node(kind, inputs, [tuple(kept)], domain=_LOCAL, **attributes)


def _with_reference(
    node: onnx.NodeProto, name: str, kind: onnx.AttributeProto.AttributeType = onnx.AttributeProto.INT
) -> onnx.NodeProto:
    reference = node.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = name, "p", kind
    return node


def _kept(start: int, stop: int, step: int, size: int) -> int:
    """How many elements onnxruntime's CPU provider keeps."""
    if step < 0 and stop in (INT64_MAX, 2**31 - 1):
        return len(range(min(start if start >= 0 else max(start + size, 0), size - 1), -1, step)) if size else 0
    return _kept_by_python(start, stop, step, size)


def _kept_by_python(start: int | None, stop: int | None, step: int, size: int) -> int:
    if step < 0 and start is not None and start < -size:
        start = -size
    return len(range(size)[start:stop:step])


# running


@mock.patch.object(inference, "_propagate", inferred_once.propagate)  # the ways come by the same models
def check(case: Case) -> str | None:
    """None if every pass leaves what comes out as it was and a second run nothing to do; else what went wrong."""
    before = onnx.ModelProto.FromString(base64.b64decode(case["model"]))
    expected = _outcomes(before, case)
    if isinstance(expected, str) or not any(expected):
        return None  # onnxruntime does not run it
    is_well_formed = _complaint(before) is None
    seen_before: dict[bytes, tuple[str | None, Outcomes]] = {}  # by ways that came to the same model
    ways = {"default": None, "all": tuple(PASSES), **{name: (name,) for name in case["passes"]}}
    optimizers = [(f"simplify by {name}", (name,)) for name in case.get("optimizers", ()) if _takes(name, before)]
    for way, names in (*ways.items(), ("harden", None), *optimizers):
        model = from_proto(before)
        is_simplified = way.startswith("simplify")
        try:
            if is_simplified:
                model, _ = simplify(model, optimizers=names or ())
            elif way == "harden":
                harden_for_directml(model)
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
    """What a second run still finds in a file that a first one wrote."""
    again = from_proto(after)
    whole = ir.serde.serialize_model(again)
    if way == "harden":
        changes = [change for change in harden_for_directml(again).changes if change.replacement is not None]
        if changes:
            return f"{way}: a second run changes {changes[0].op} {changes[0].node!r}"
    else:
        report = rewrite(again) if names is None else rewrite(again, names)
        for name, done in report.changes.items():
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
    """What is fed in turn: each shape by itself, and with other values for what a caller may replace."""
    replaced = {name: np.array(values[0], np.int64) for name, values in case["feeds"].items() if name in names}
    return [
        {"x": np.arange(1, prod(sizes) + 1, dtype=np.float32).reshape(sizes), **more}
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
    """For each way to feed it what comes out, or the error; only the error where it does not load."""
    try:
        session = open_unoptimized(_runnable(proto))
    except Exception as error:
        return " ".join(str(error).split())[:_MAX_MESSAGE]
    names = {value.name for value in session.get_overridable_initializers()}
    found: list[list[tuple[Shape, bytes]] | str | None] = []
    for feed in _feeds(case, names):
        try:
            results = session.run(None, feed)
        except Exception as error:
            found.append(" ".join(str(error).split())[:_MAX_MESSAGE])
        else:
            found.append([(array.shape, array.tobytes()) for array in as_arrays(results)])
    return found if not all(isinstance(one, str) for one in found) else str(found[0])


# minimising


def shrink(case: Case) -> Iterator[Case]:
    """Smaller cases, most reduced first."""
    proto = onnx.ModelProto.FromString(base64.b64decode(case["model"]))
    for name in case.get("optimizers", ()):
        yield {**case, "optimizers": [other for other in case["optimizers"] if other != name]}
    for name in case["passes"]:
        yield {**case, "passes": [other for other in case["passes"] if other != name]}
    for i in range(len(case["sizes"])):
        if len(case["sizes"]) > 1:
            yield {**case, "sizes": case["sizes"][:i] + case["sizes"][i + 1 :]}
    for i in range(len(proto.graph.output)):
        if len(proto.graph.output) > 1:
            smaller = _copied(proto)
            del smaller.graph.output[i]
            yield _with_model(case, smaller)
    for i in reversed(range(len(proto.graph.node))):
        smaller = _copied(proto)
        node = smaller.graph.node[i]
        read = {name for other in smaller.graph.node for name in other.input} | _read_inside(smaller.graph)
        wanted = {value.name for value in smaller.graph.output}
        if not read.union(wanted).intersection(node.output):
            del smaller.graph.node[i]
            yield _with_model(case, smaller)
        elif node.input and node.input[0]:
            first, outputs = node.input[0], list(node.output)
            if wanted.intersection(outputs):
                continue
            del smaller.graph.node[i]
            for other in smaller.graph.node:
                other.input[:] = [first if name in outputs else name for name in other.input]
            yield _with_model(case, smaller)
    for value in list(proto.graph.output):
        producer = next((node for node in proto.graph.node if value.name in node.output), None)
        if producer is not None and producer.input and producer.op_type != "Identity":
            smaller = _copied(proto)
            made = {name for node in smaller.graph.node for name in node.output}
            for output in smaller.graph.output:
                if output.name == value.name and producer.input[0] in made:
                    output.name = producer.input[0]
                    output.type.tensor_type.ClearField("shape")
            if smaller != proto:
                yield _with_model(case, smaller)
    used = {name for node in proto.graph.node for name in node.input} | _read_inside(proto.graph)
    idle = [tensor.name for tensor in proto.graph.initializer if tensor.name not in used]
    if idle:
        smaller = _copied(proto)
        for field_ in (smaller.graph.initializer, smaller.graph.input):
            for item in [item for item in field_ if item.name in idle]:
                field_.remove(item)
        yield _with_model(case, smaller)


def _read_inside(graph: onnx.GraphProto) -> set[str]:
    inner = [one.g for node in graph.node for one in node.attribute if one.HasField("g")]
    return {name for body in inner for node in body.node for name in node.input}


def _copied(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def _with_model(case: Case, proto: onnx.ModelProto) -> Case:
    return {**case, "model": base64.b64encode(proto.SerializeToString()).decode()}

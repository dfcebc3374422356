"""Random graphs around slicing, in ONNX or IR, each with inputs and the right outputs, which NumPy computes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from sliceport.cases.drawing import Drawing
from sliceport.cases.graph import Array, Graph, Node, TensorType, element_of, select_needed

_FARTHEST = {"int64": 2**63 - 1, "int32": 2**31 - 1}
_IR_NAMES = {"Neg": "Negative", "Relu": "ReLU", "Sub": "Subtract", "Mul": "Multiply"}
_UNARY: Mapping[str, Callable[[Array], Array]] = {
    "Neg": np.negative, "Abs": np.abs, "Relu": lambda x: np.maximum(x, 0),
}  # fmt: skip
_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


@dataclass(frozen=True)
class RandomGraph:
    """A graph with inputs and the outputs that are right.

    Attributes:
        graph: The graph.
        opset: The operator set of ONNX; None for OpenVINO's IR.
        inputs: An array for each input of the graph.
        outputs: The right outputs by name.
        tolerance: The difference that rounding may cause; 0 if all outputs are exact.
        values: The right values by name, as far as the standard decides them.
    """

    graph: Graph
    opset: int | None
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    tolerance: float
    values: Mapping[str, Array]

    def cut(self, name: str, nodes: Sequence[Node], outputs: Sequence[str]) -> RandomGraph:
        """Return the graph of some of the nodes that its outputs need; what they read from others are its inputs."""
        kept, needed = select_needed(nodes, outputs)
        written = {each for node in kept for each in node.outputs}
        constants = {each: array for each, array in self.graph.constants.items() if each in needed}
        types = {
            each: self.graph.inputs.get(each) or TensorType(element_of(array), array.shape)
            for each, array in self.values.items()
            if each in needed and each not in written and each not in constants
        }
        declared = {each: TensorType.opened(each, self.values[each]) for each in outputs}
        graph = Graph(name, types, declared, kept, constants, self.graph.text)
        inputs, right = ({each: self.values[each] for each in names} for names in (types, outputs))
        return replace(self, graph=graph, inputs=inputs, outputs=right)


def _draw_slice(draw: Drawing, size: int, kind: str) -> tuple[slice, int, int, int]:
    """Return a slice of an axis; a start, an end and a step that mean the same by the rules of ONNX and OpenVINO."""
    rng, farthest = draw.rng, _FARTHEST[kind]
    step = rng.choice((1, 1, 1, 1, 2, 3, -1, -1, -2)) if size and draw.since(10) else 1
    if step > 0:
        low, high = sorted((rng.randint(0, size), rng.randint(0, size)))
        if draw.maybe(0.35):
            low, high = rng.choice(((0, high), (low, size), (0, size)))
        starts = [low, *([low - size] if low < size else []), *([-size - 3] if low == 0 else [])]
        ends = [high, *([high - size] if high < size else [farthest, size + 2, farthest])]
        return slice(low, high, step), rng.choice(starts), rng.choice(ends), step
    low, high = sorted((rng.randint(0, size) - 1, rng.randint(0, size - 1)))
    starts = [high, high - size, *([farthest, size] if high == size - 1 else [])]
    ends = [low, low - size] if low >= 0 else [-size - 1, -farthest, -size - 4]
    return slice(high, low if low >= 0 else None, step), rng.choice(starts), rng.choice(ends), step


def _slice(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Slice."""
    kind = draw.rng.choice(("int64", "int64", "int32"))
    axes = draw.rng.sample(range(x.ndim), draw.rng.randint(1, x.ndim))
    if draw.maybe(0.5):
        axes = list(range(len(axes)))
    index, starts, ends, steps = zip(*(_draw_slice(draw, x.shape[axis], kind) for axis in axes), strict=True)
    whole = tuple(dict(zip(axes, index, strict=True)).get(axis, slice(None)) for axis in range(x.ndim))
    written = [draw.spell_axis(axis, x.ndim, opset=10) for axis in axes]
    if not draw.since(10):
        return draw.add("Slice", [source], lambda x: [x[whole]], starts=starts, ends=ends, axes=written)
    end = draw.known_late(ends, kind)
    if len(axes) == 1 and kind == "int64" and index[0].stop == x.shape[axes[0]] and draw.maybe(0.5):
        end = _size_of(draw, source, axes[0])
    lists = [draw.known_late(starts, kind), end]
    if draw.is_ir:
        lists += [draw.known_late(steps, kind), draw.known_late(written, kind)]
        return draw.add("Slice", [source], lambda x: [x[whole]], lists, version=8)
    is_plain = axes == list(range(len(axes))) and draw.maybe(0.5)
    lists.append("" if is_plain else draw.constant(written, kind))
    lists.append("" if set(steps) == {1} and draw.maybe(0.7) else draw.known_late(steps, kind))
    return draw.add("Slice", [source], lambda x: [x[whole]], lists)


def _size_of(draw: Drawing, source: str, axis: int) -> str:
    """Return the name of a list of one size, computed as exporters write it."""
    more: dict[str, Any] = {"version": 3, "output_type": "i64"} if draw.is_ir else {}
    operator = "ShapeOf" if draw.is_ir else "Shape"
    (shape,) = draw.add(operator, [source], lambda x: [np.array(x.shape, np.int64)], **more)
    lists = [draw.constant([axis]), draw.constant(0 if draw.is_ir else [axis + 1])]
    if draw.is_ir:
        return draw.add("Gather", [shape], lambda s: [s[[axis]]], lists, version=8, batch_dims=0)[0]
    if draw.since(10) and draw.maybe(0.5):
        return draw.add("Slice", [shape], lambda s: [s[[axis]]], lists)[0]
    return draw.add("Gather", [shape], lambda s: [s[[axis]]], lists[:1], axis=0)[0]


def _strided_slice(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a StridedSlice of OpenVINO with masks, or a Slice of ONNX."""
    if not draw.is_ir:
        return _slice(draw, source, x)
    kind = draw.rng.choice(("int64", "int64", "int32"))
    skipped = draw.rng.randint(0, x.ndim - 1) if draw.maybe(0.1) else 0  # axes of an ellipsis
    place = draw.rng.randint(0, x.ndim - skipped)
    entries: list[tuple[str, Any, int, int, int]] = []  # the mask that is set, the index, begin, end, stride
    axis, last = 0, x.ndim if skipped else draw.rng.randint(1, x.ndim)
    while axis < last:
        size = x.shape[axis]
        if draw.maybe(0.1):
            entries.append(("new_axis_mask", None, 0, 0, 1))
        if skipped and axis == place:
            entries.append(("ellipsis_mask", Ellipsis, 0, 0, 1))
            axis += skipped
            continue
        if size and draw.maybe(0.15):
            at = draw.rng.randrange(size)
            begin = at - draw.rng.choice((0, size))
            entries.append(("shrink_axis_mask", at, begin, begin + 1 if begin != -1 else 0, 1))
        else:
            entries.append(("", *_draw_slice(draw, size, "int32")))
        axis += 1
    index = [entry[1] for entry in entries]
    masks: dict[str, Any] = {
        name: [int(entry[0] == name) for entry in entries]
        for name in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    }
    begins, ends = ([int(not entry[0] and draw.maybe(0.2)) for entry in entries] for _ in range(2))
    for i, cut in enumerate(index):
        if isinstance(cut, slice):
            index[i] = slice(None if begins[i] else cut.start, None if ends[i] else cut.stop, cut.step)
    lists = [draw.known_late([entry[k] for entry in entries], kind) for k in (2, 3, 4)]
    masks |= {"begin_mask": begins, "end_mask": ends}
    return draw.add("StridedSlice", [source], lambda x: [x[tuple(index)]], lists, **masks)


def _split(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Split or VariadicSplit."""
    axis = draw.rng.randrange(x.ndim)
    size, written = x.shape[axis], draw.spell_axis(axis, x.ndim)
    counts = [count for count in (2, 3, 4) if size and size % count == 0]
    count = draw.rng.choice(counts or [1])
    sizes, form = [size // count] * count, draw.rng.choice(("even", "uneven", "num_outputs"))
    if form == "uneven":
        ends = [0, *sorted(draw.rng.randint(0, size) for _ in range(draw.rng.randint(0, 2))), size]
        sizes = [high - low for low, high in pairwise(ends)]
        if draw.maybe(0.7):
            sizes = [each for each in sizes if each] or [0]
    if form == "num_outputs" and size and draw.since(18) and not draw.is_ir:
        part = -(-size // draw.rng.randint(1, min(size, 4)))
        sizes = [min(part, size - start) for start in range(0, size, part)]
    count, places = len(sizes), np.cumsum(sizes)[:-1]
    more: dict[str, Any] = {"count": count}
    lists = []
    if draw.is_ir:
        lists.append(draw.constant(written))
        if form != "uneven":
            return draw.add("Split", [source], lambda x: np.split(x, places, axis), lists, **more, num_splits=count)
        listed = list(sizes)
        if draw.maybe(0.3):
            listed[draw.rng.randrange(count)] = -1
        lists.append(draw.known_late(listed))
        return draw.add("VariadicSplit", [source], lambda x: np.split(x, places, axis), lists, **more)
    more["axis"] = written
    if form == "num_outputs" and draw.since(18):
        more["num_outputs"] = count
    elif draw.since(13) and (form == "uneven" or draw.since(18)):
        lists.append(draw.known_late(sizes))
    elif form == "uneven":
        more["split"] = sizes
    return draw.add("Split", [source], lambda x: np.split(x, places, axis), lists, **more)


def _concat(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Concat of values that fit."""
    axis = draw.rng.randrange(x.ndim)
    others = [
        name
        for name in draw.pool
        if (other := draw.values[name].shape)[:axis] == x.shape[:axis]
        and other[axis + 1 :] == x.shape[axis + 1 :]
        and len(other) == x.ndim
    ]
    names = [draw.rng.choice(others) for _ in range(draw.rng.choice((1, 2, 2, 3)))] + [source]
    draw.rng.shuffle(names)
    return draw.add("Concat", names, lambda *xs: [np.concatenate(xs, axis)], axis=draw.spell_axis(axis, x.ndim))


def _reshape(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Reshape, by a list or by sizes that are computed."""
    sizes, rest = list(draw.rng.sample(x.shape, x.ndim)), x.size
    if rest:
        sizes = []
        for _ in range(draw.rng.randint(0, 3)):
            sizes.append(draw.rng.choice([size for size in (1, 2, 3, 4, 6) if rest % size == 0]))
            rest //= sizes[-1]
        sizes.append(rest)
        draw.rng.shuffle(sizes)
    elif not draw.since(14):
        return []
    written, more = list(sizes), draw.copying_sizes()
    if not rest:
        more = {"special_zero": False} if draw.is_ir else {"allowzero": 1}
    elif draw.maybe(0.5):
        written[draw.rng.randrange(len(written))] = -1
    kept = [i for i, size in enumerate(written[: x.ndim]) if rest and size == x.shape[i]]
    shape = ""
    if kept and draw.maybe(0.5):
        place = draw.rng.choice(kept)
        written[place] = 0
        if len(written) > 1 and draw.maybe(0.6):
            pieces = [written[:place], written[place + 1 :]]
            names = [draw.known_late(piece) if piece else "" for piece in pieces]
            names.insert(1, _size_of(draw, source, place))
            (shape,) = draw.add("Concat", [name for name in names if name], lambda *xs: [np.concatenate(xs)], axis=0)
    return draw.add("Reshape", [source], lambda x: [x.reshape(sizes)], [shape or draw.known_late(written)], **more)


def _transpose(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Transpose."""
    order = draw.rng.sample(range(x.ndim), x.ndim)
    if draw.is_ir:
        return draw.add("Transpose", [source], lambda x: [x.transpose(order)], [draw.known_late(order)])
    return draw.add("Transpose", [source], lambda x: [x.transpose(order)], perm=order)


def _gather(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Gather."""
    axis = draw.rng.randrange(x.ndim)
    size = x.shape[axis]
    if not size:
        return []
    places = [draw.spell_axis(draw.rng.randrange(size), size) for _ in range(draw.rng.randint(1, 3))]
    indices = np.array(draw.rng.choice((places[0], places[:1], places, [places])))
    lists = [draw.known_late(indices, draw.rng.choice(("int64", "int32")))]
    more: dict[str, Any] = {"version": 8, "batch_dims": 0} if draw.is_ir else {"axis": axis}
    lists += [draw.constant(axis)] if draw.is_ir else []
    return draw.add("Gather", [source], lambda x: [np.take(x, indices, axis)], lists, **more)


def _squeeze(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Squeeze, or an Unsqueeze."""
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    is_squeeze = bool(ones) and (x.ndim > 4 or draw.maybe(0.6))
    if not is_squeeze and x.ndim > 4:
        return []
    axis = draw.rng.choice(ones) if is_squeeze else draw.rng.randint(0, x.ndim)
    operator, change = ("Squeeze", np.squeeze) if is_squeeze else ("Unsqueeze", np.expand_dims)
    written = [draw.spell_axis(axis, x.ndim if is_squeeze else x.ndim + 1)]
    if draw.since(13):
        return draw.add(operator, [source], lambda x: [change(x, axis)], [draw.constant(written)])
    return draw.add(operator, [source], lambda x: [change(x, axis)], axes=written)


def _expand(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Tile, or an Expand or Broadcast."""
    if draw.maybe(0.5):
        repeats = [draw.rng.choice((1, 1, 2, 3, 0) if draw.maybe(0.1) else (1, 1, 2)) for _ in x.shape]
        return draw.add("Tile", [source], lambda x: [np.tile(x, repeats)], [draw.known_late(repeats)])
    sizes = [draw.rng.choice((1, 2, 3)) if size == 1 else size for size in x.shape]
    if x.ndim < 5 and draw.maybe(0.3):
        sizes.insert(0, draw.rng.choice((1, 2)))
    operator = "Broadcast" if draw.is_ir else "Expand"
    more: dict[str, Any] = {"version": 3, "mode": "bidirectional"} if draw.is_ir else {}
    return draw.add(operator, [source], lambda x: [np.broadcast_to(x, sizes)], [draw.known_late(sizes)], **more)


def _pad(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Pad with zeros."""
    if x.dtype == bool or not draw.since(11):
        return []
    widths = [(draw.rng.choice((0, 0, 1, 2)), draw.rng.choice((0, 0, 1, 2))) for _ in x.shape]
    before, after = map(list, zip(*widths, strict=True))
    lists = [draw.known_late(before), draw.known_late(after)] if draw.is_ir else [draw.known_late(before + after)]
    lists.append(draw.constant(0, x.dtype.name))
    more = {"pad_mode" if draw.is_ir else "mode": "constant"}
    return draw.add("Pad", [source], lambda x: [np.pad(x, widths)], lists, **more)  # type: ignore[arg-type]


def _elementwise(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a node of one or two inputs that computes each element."""
    if x.dtype.kind not in "fi":
        return []
    if draw.maybe(0.4):
        name = draw.rng.choice([name for name in _UNARY if x.dtype.kind == "f" or name != "Relu"])
        return draw.add(_IR_NAMES.get(name, name) if draw.is_ir else name, [source], lambda x: [_UNARY[name](x)])
    fitting = [each for each in draw.pool if draw.values[each].shape == x.shape]
    other = draw.rng.choice(fitting) if draw.maybe(0.6) else draw.known_late(draw.rng.randint(1, 3), x.dtype.name)
    name = draw.rng.choice(list(_BINARY))
    operator = _IR_NAMES.get(name, name) if draw.is_ir else name
    return draw.add(operator, [source, other], lambda x, y: [_BINARY[name](x, y)])


def _reduce(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a ReduceSum or ReduceMax over one axis."""
    axis, keeps = draw.rng.randrange(x.ndim), draw.maybe(0.5)
    operator = draw.rng.choice(("ReduceSum", "ReduceMax") if x.shape[axis] else ("ReduceSum",))
    if x.dtype not in (np.float32, np.int32, np.int64):
        return []
    reduce = np.sum if operator == "ReduceSum" else np.max
    lists: list[str] = []
    more: dict[str, Any] = {"keep_dims": keeps} if draw.is_ir else {"keepdims": int(keeps)}
    if draw.since(13 if operator == "ReduceSum" else 18):
        lists.append(draw.constant([axis]))
    else:
        more["axes"] = [axis]
    return draw.add(operator, [source], lambda x: [reduce(x, axis=axis, keepdims=keeps).astype(x.dtype)], lists, **more)


def _matmul(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a MatMul with small weights."""
    if x.dtype != np.float32 or x.ndim < 2:
        return []
    weights = [draw.rng.randint(-2, 2) for _ in range(x.shape[-1] * 3)]
    other = draw.known_late(np.reshape(weights, (x.shape[-1], 3)), "float32")
    more: dict[str, Any] = {"transpose_a": False, "transpose_b": False} if draw.is_ir else {}
    return draw.add("MatMul", [source, other], lambda x, y: [np.matmul(x, y)], **more)


def _gate(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a gated linear unit: one half of a Split, multiplied by the Sigmoid of the other."""
    even = [axis for axis, size in enumerate(x.shape) if size % 2 == 0 and size]
    if x.dtype != np.float32 or not even:
        return []
    axis = draw.rng.choice(even)
    more: dict[str, Any] = {"num_splits": 2} if draw.is_ir else {"axis": axis}
    more |= {"num_outputs": 2} if draw.since(18) and not draw.is_ir else {}
    lists = [draw.constant(axis)] if draw.is_ir else []
    first, second = draw.rng.sample(draw.add("Split", [source], lambda x: np.split(x, 2, axis), lists, 2, **more), 2)
    (gate,) = draw.add("Sigmoid", [first], lambda x: [(1 / (1 + np.exp(-x.astype(float)))).astype(x.dtype)])
    draw.is_exact = False
    return draw.add("Multiply" if draw.is_ir else "Mul", [gate, second], lambda x, y: [x * y])


def _open_body(draw: Drawing, sources: Mapping[str, str]) -> Drawing:
    """Return a drawing for a body that reads values of the graph around it: the names in it by those outside."""
    values = {} if draw.is_ir else dict(draw.values)
    values |= {inner: draw.values[outer] for outer, inner in sources.items()}
    return Drawing(draw.rng, draw.opset, f"{draw.new_name()}_", values, list(sources.values()))


def _fill_body(body: Drawing, count: int) -> str:
    """Add nodes to a body, and return the name of the last value that they write."""
    first = body.pool[-1]
    for _ in range(count):
        _add_node(body, _PLAIN)
    return body.pool[-1] if body.pool[-1] != first else body.copy(first)


def _if(draw: Drawing, source: str, x: Array) -> list[str]:  # noqa: ARG001
    """Add an If whose branches each read one value."""
    is_taken = draw.maybe(0.5)
    name = f"{draw.new_name()}_x" if draw.is_ir else source
    bodies = [_open_body(draw, {source: name}) for _ in range(2)]
    outputs = [_fill_body(body, draw.rng.randint(0, 3)) for body in bodies]
    shapes = [body.values[output].shape for body, output in zip(bodies, outputs, strict=True)]
    if len(shapes[0]) != len(shapes[1]) or (shapes[0] != shapes[1] and not draw.since(11)):
        return []
    graphs = [
        body.to_graph("branch", [output], body.declare([name]) if draw.is_ir else {})
        for body, output in zip(bodies, outputs, strict=True)
    ]
    draw.is_exact &= all(body.is_exact for body in bodies)
    condition = draw.known_late(is_taken, "bool")

    def compute(condition: Array, x: Array) -> list[Array]:
        k = 0 if condition else 1
        return bodies[k].evaluate({name: x}, [outputs[k]])

    if draw.is_ir:
        more: dict[str, Any] = {"then_body": graphs[0], "else_body": graphs[1]}
        return draw.add("If", [condition, source], compute, version=8, **more)
    more = {"then_branch": graphs[0], "else_branch": graphs[1]}
    return draw.add("If", [condition], compute, captures=[source], **more)


def _loop(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Loop that adds to a value, and collects what nodes make of it."""
    if x.dtype != np.float32:
        return []
    stem, count = draw.new_name(), draw.rng.choice((0, 1, 2, 3))
    name = f"{stem}_x"
    body = _open_body(draw, {source: name})
    row = _fill_body(body, draw.rng.randint(1, 3))
    (carried,) = body.add("Add", [name, body.constant(1, "float32")], lambda x, y: [x + y])
    draw.is_exact &= body.is_exact

    def compute(times: Array, _condition: Array, x: Array) -> list[Array]:
        rows = [np.zeros((0, *body.values[row].shape), body.values[row].dtype)]
        for _ in range(int(times)):
            x, written = body.evaluate({name: x}, [carried, row])
            rows.append(written[None])
        return [x, np.concatenate(rows)]

    reads = [draw.known_late(count), draw.constant(True, "bool"), source]
    if draw.is_ir:
        (whole,) = body.add("Unsqueeze", [row], lambda x: [x[None]], [body.constant([0])])
        outputs, inputs = [body.constant(True, "bool"), carried, whole], [name]
        more: dict[str, Any] = {"version": 5, "carried": {0: 0}, "joined": {1: 0}}
    else:
        body.values |= {f"{stem}_i": np.array(0), f"{stem}_c": np.array(True)}
        outputs = [*body.add("Identity", [f"{stem}_c"], lambda x: [x]), carried, row]
        inputs, more = [f"{stem}_i", f"{stem}_c", name], {}
    more["body"] = body.to_graph("body", outputs, body.declare(inputs))
    outputs = draw.add("Loop", reads, compute, count=2, **more)
    if outputs and not count:  # of what no iteration writes, only the first size is known
        draw.values.pop(outputs.pop())
    return outputs


def _scan(draw: Drawing, source: str, x: Array) -> list[str]:
    """Add a Scan or TensorIterator that adds the rows of a value, and collects what nodes make of each row."""
    if x.dtype != np.float32 or x.ndim < 2 or not len(x):
        return []
    start, stem = draw.known_late(np.zeros(x.shape[1:]), "float32"), draw.new_name()
    state, row, cut = f"{stem}_s", f"{stem}_r", f"{stem}_x"
    body = _open_body(draw, {start: state})
    body.values |= {row: x[0], cut: x[:1]}
    if draw.is_ir:
        (row,) = body.add("Squeeze", [cut], lambda x: [x[0]], [body.constant([0])])
    body.pool = [row]
    written = _fill_body(body, draw.rng.randint(1, 3))
    (total,) = body.add("Add", [state, row], lambda x, y: [x + y])
    draw.is_exact &= body.is_exact

    def compute(current: Array, x: Array) -> list[Array]:
        rows = []
        for i in range(len(x)):
            current, one = body.evaluate({state: current, row: x[i], cut: x[i : i + 1]}, [total, written])
            rows.append(one)
        return [current, np.stack(rows)]

    if draw.is_ir:
        (whole,) = body.add("Unsqueeze", [written], lambda x: [x[None]], [body.constant([0])])
        graph = body.to_graph("body", [total, whole], body.declare([state, cut]))
        more: dict[str, Any] = {"body": graph, "carried": {0: 0}, "cut": {1: 0}, "joined": {1: 0}}
        return draw.add("TensorIterator", [start, source], compute, count=2, **more)
    graph = body.to_graph("body", [total, written], body.declare([state, row]))
    return draw.add("Scan", [start, source], compute, count=2, body=graph, num_scan_inputs=1)


_PLAIN = (
    *(_slice, _strided_slice) * 5, *(_split, _concat) * 4, *(_reshape, _elementwise) * 3,
    *(_transpose, _gather, _squeeze) * 2, _expand, _pad, _reduce, _matmul, _gate,
)  # fmt: skip
_ALL = (*_PLAIN, _if, _loop, _scan)


def _add_node(draw: Drawing, functions: Sequence[Callable[[Drawing, str, Array], list[str]]]) -> None:
    """Add nodes by one of the functions, unless the value that it would read does not fit."""
    source, function = draw.pick(), draw.rng.choice(functions)
    if 0 < draw.values[source].ndim < 6:
        draw.pool += function(draw, source, draw.values[source])


def draw_graph(seed: int, opset: int | None) -> RandomGraph:
    """Return the random graph of a seed: for an operator set of ONNX, 9 or later, or for OpenVINO if it is None."""
    rng = random.Random(f"{seed} {opset}")  # noqa: S311 - no secret
    draw = Drawing(rng, opset)
    dtype = rng.choice(("float32",) * 14 + ("int64", "int64", "int32", "float64", "uint8", "bool"))
    share_of_open = rng.choice((0, 0, 0, 0.5, 1))
    for number in range(rng.choice((1, 1, 2, 2, 3))):
        shape = [0 if draw.maybe(0.03) else rng.choice((1, 2, 3, 4, 6)) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))]
        name, data = f"x{number}", np.arange(np.prod(shape)).reshape(shape) + 500 * number + 1
        draw.values[name] = data % 3 == 1 if dtype == "bool" else data.astype(dtype)
        sizes = [f"{name}_{i}" if draw.maybe(share_of_open) else size for i, size in enumerate(shape)]
        draw.inputs[name] = TensorType(element_of(draw.values[name]), sizes)
        draw.pool.append(name)
    first = len(draw.pool)
    for _ in range(rng.randint(2, 8)):
        _add_node(draw, _ALL)
    written = draw.pool[first:] or [draw.copy(draw.pool[0])]
    outputs = sorted({written[-1], *rng.sample(written, min(len(written), rng.choice((0, 1, 2))))}, key=written.index)
    name = f"test_graph_{'openvino' if opset is None else f'onnx_{opset}'}_{seed}"
    graph = draw.to_graph(name, outputs, draw.inputs)
    if share_of_open == 0 and all(name.startswith("x") for name in graph.inputs):  # nothing is known late
        declared = {name: type_._replace(sizes=draw.values[name].shape) for name, type_ in graph.outputs.items()}
        graph = replace(graph, outputs=declared)
    graph = replace(graph, text=f"The standards of its nodes, at seed {seed}.")
    floats = [np.abs(array).max(initial=0) for array in draw.values.values() if array.dtype.kind == "f"]
    tolerance = 0.0 if draw.is_exact else 1e-5 * float(max(floats))
    inputs = {name: draw.values[name] for name in graph.inputs}
    right = {name: draw.values[name] for name in outputs}
    return RandomGraph(graph, opset, inputs, right, tolerance, draw.values)


def draw_graphs(count: int, seed: int, opsets: Sequence[int]) -> list[RandomGraph]:
    """Return this number of random graphs, in turn for each operator set of ONNX and for OpenVINO's IR."""
    forms = (*opsets, *(None for _ in opsets)) if opsets else (None,)
    return [draw_graph(seed + i, forms[i % len(forms)]) for i in range(count)]

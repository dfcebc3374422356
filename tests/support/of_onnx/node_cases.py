"""Random models of one standard node, with inputs that are known, open or partly known.

Each operator whose shape or elements `onnx_ops.infer` works out by itself has a maker here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from sessions import open_session

from onnx_ops.infer.facts import Facts
from onnx_ops.infer.propagate import propagate
from sliceport.engines.engine import Array

Drawn = tuple[dict[str, Any], list["Array | None"]]
"""The attributes of a node and the arrays that it reads, None for an input that is left out."""

FIRST_OPSET, LAST_OPSET = 7, 24
_INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)
_TYPES = (*_INTEGERS, *[np.int64, np.int32, np.float32, np.bool_] * 4, np.float64)
_SIZES = (0, 1, 1, 2, 2, 3, 4)
_WHOLE = (-(2**62), -(2**53) - 1, -(2**31) - 1, -(2**24) - 1, -129, -2, -1, 0, 1, 2, 3, 127, 255, 2**24 + 1, 2**31 + 1)
_REAL = (0.0, -0.0, 0.1, -0.1, 1, -1, 0.5, 1.5, 2.5, -2.5, 3e38, 1e-45, 1e-40, np.inf, -np.inf, np.nan, 2**24, 2**31)
_CASTS = (1, 2, 3, 4, 5, 6, 7, 9, 9, 10, 11, 12, 13, 16)
_MAX_PARTLY_KNOWN = 8
# Reductions, OneHot, TopK and LpNormalization of onnxruntime before 1.31 end the process on some empty tensors.
_CRASHES_ON_EMPTY = tuple(map(int, ort.__version__.split(".")[:2])) < (1, 31)
_PARTLY_KNOWN_TYPES = (np.int32, np.int64, np.bool_)


@dataclass
class NodeCase:
    """A model of one node, which is its last, and what its inputs are fed with."""

    model: onnx.ModelProto
    feeds: dict[str, Array] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """The size that each symbol in the inputs' shapes stands for."""

    @property
    def node(self) -> onnx.NodeProto:
        node: onnx.NodeProto = self.model.graph.node[-1]
        return node


class _Draw:
    def __init__(self, op_type: str, rng: np.random.Generator) -> None:
        self.rng = rng
        self.op_type = op_type
        self.dtype: Any = self.pick(_TYPES)
        self.shape = tuple(self.pick(_SIZES) for _ in range(self.number(0, 5)))
        self.rank = len(self.shape)
        self.outputs = 1
        self.opset = self.number(max(_first_versions()[op_type], FIRST_OPSET), LAST_OPSET + 1)

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.number(0, len(choices))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def array(self, *shape: int) -> Array:
        """Draw elements: small ones, or those at the limits of the type."""
        kind = np.dtype(self.dtype).kind
        if kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape), bool)
        pool: Sequence[float] = _REAL
        if kind in "iu":
            limits = np.iinfo(self.dtype)
            pool = [n for n in (limits.min, *_WHOLE, limits.max) if limits.min <= n <= limits.max]
        if self.number(0, 3):
            pool = (0, 1, 2, 3, 5)
        return np.asarray(self.rng.choice(np.array(pool, self.dtype), shape))

    def data(self) -> Array:
        return self.array(*self.shape)

    def broadcast(self) -> Array:
        """Draw an array that broadcasts with the data."""
        kept = self.shape[self.number(0, self.rank + 1) :]
        shape = [self.pick((size, 1, size if size != 1 else self.pick(_SIZES))) for size in kept]
        return self.array(*[self.pick(_SIZES)] * (len(kept) == self.rank and not self.number(0, 4)), *shape)

    def axis(self) -> int:
        return self.number(-max(self.rank, 1), max(self.rank, 1))

    def some_axes(self) -> list[int]:
        """Draw different axes, some of them negative."""
        chosen = [axis for axis in range(self.rank) if self.number(0, 2)]
        return [axis - self.rank if self.number(0, 2) else axis for axis in chosen]

    def index(self, size: int, *shape: int, dtype: Any = np.int64) -> Array:
        least = -size if self.opset >= 11 else 0
        return np.asarray(self.rng.integers(least, max(size, 1), shape), dtype)


@cache
def _first_versions() -> dict[str, int]:
    """Map each standard operator to the operator set that brought it."""
    schemas = onnx.defs.get_all_schemas_with_history()
    newest_first = sorted((s for s in schemas if not s.domain), key=lambda s: -s.since_version)
    return {schema.name: schema.since_version for schema in newest_first}


def _list(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)


def _divide(d: _Draw) -> Drawn:
    data, divisor = d.data(), d.broadcast()
    if data.dtype.kind in "iu":  # a division by 0 or an overflow would end the process
        divisor[(divisor == 0) | (divisor == np.array(-1).astype(d.dtype))] = 3
    fmod = {"fmod": 1} if d.op_type == "Mod" and (data.dtype.kind == "f" or not d.number(0, 3)) else {}
    return fmod, [data, divisor]


def _range(d: _Draw) -> Drawn:
    if np.dtype(d.dtype).kind == "f":
        return {}, [np.array(n, d.dtype) for n in (d.number(-4, 4) * 0.1, d.number(4, 40) * 0.1, d.number(1, 9) * 0.1)]
    d.dtype = d.pick((np.int64, np.int32))
    return {}, [np.array(n, d.dtype) for n in (d.number(-9, 9), d.number(-9, 30), d.pick((-3, -1, 1, 1, 2)))]


def _reduce(d: _Draw) -> Drawn:
    first_by_input = 13 if d.op_type == "ReduceSum" else 18
    attributes: dict[str, Any] = {"keepdims": d.number(0, 2)}
    axes = d.some_axes()
    if d.opset < first_by_input:
        return {**attributes, **({"axes": axes} if axes else {})}, [d.data()]
    attributes |= {"noop_with_empty_axes": d.number(0, 2)}
    return attributes, [d.data(), d.pick((_list(axes), _list(axes), None))]


def _arg(d: _Draw) -> Drawn:
    last = {"select_last_index": d.number(0, 2)} if d.opset >= 12 else {}
    return {"axis": d.axis(), "keepdims": d.number(0, 2), **last}, [d.data()]


def _squeeze(d: _Draw) -> Drawn:
    ones = [axis for axis in range(d.rank) if d.shape[axis] == 1 and d.number(0, 3)]
    return _axes(d, [axis - d.rank if d.number(0, 2) else axis for axis in ones], needs_axes=False)


def _unsqueeze(d: _Draw) -> Drawn:
    full = d.rank + d.number(1, 3)
    axes = [int(axis) for axis in d.rng.permutation(full)[: full - d.rank]]
    return _axes(d, [axis - full if d.number(0, 2) else axis for axis in axes], needs_axes=True)


def _axes(d: _Draw, axes: list[int], *, needs_axes: bool) -> Drawn:
    if d.opset >= 13:
        return {}, [d.data(), _list(axes) if needs_axes or axes else None]
    return ({"axes": axes} if axes else {}), [d.data()]


def _reshape(d: _Draw) -> Drawn:
    allowzero = {"allowzero": d.number(0, 2)} if d.opset >= 14 else {}
    count, wanted = int(np.prod(d.shape)), []
    for i in range(d.number(0, 4)):
        size = d.pick([n for n in (1, 2, 3, 4, 6, 12) if count % n == 0])
        copies = i < d.rank and not d.number(0, 3) and d.shape[i] and count % d.shape[i] == 0
        count //= d.shape[i] if copies else size
        wanted.append(0 if copies or (0 in d.shape and not d.number(0, 3)) else size)
    return allowzero, [d.data(), _list([*wanted, d.pick((-1, -1, count))] if d.number(0, 5) else wanted)]


def _gather(d: _Draw) -> Drawn:
    axis = d.axis()
    size = d.shape[axis] if d.rank else 1
    return {"axis": axis}, [d.data(), d.index(size, *[d.pick((1, 2))] * d.number(0, 3), dtype=d.pick((int, np.int32)))]


def _gather_elements(d: _Draw) -> Drawn:
    axis = d.axis()
    shape = [d.number(0, 3) if d.number(0, 3) == 0 else size for size in d.shape]
    if not d.rank or any(a > b for i, (a, b) in enumerate(zip(shape, d.shape, strict=True)) if i != axis % d.rank):
        shape = list(d.shape)
    return {"axis": axis}, [d.data(), d.index(d.shape[axis] if d.rank else 1, *shape)]


def _gather_nd(d: _Draw) -> Drawn:
    batches = {"batch_dims": d.number(0, 2)} if d.opset >= 12 else {}
    return batches, [d.array(3, 3, d.number(0, 3)), d.index(3, 3, d.number(0, 3), 1)]


def _concat(d: _Draw) -> Drawn:
    axis, parts = d.axis(), []
    for _ in range(d.number(1, 4)):
        shape = list(d.shape)
        if d.rank:
            shape[axis] = d.pick(_SIZES)
        parts.append(d.array(*shape))
    return {"axis": axis}, [*parts]


def _split(d: _Draw) -> Drawn:
    axis = d.axis()
    size = d.shape[axis] if d.rank else 0
    if d.number(0, 2):
        first = d.number(0, size + 1)
        d.outputs, sizes = 2, [first, size - first]
        return (
            ({"axis": axis, "split": sizes}, [d.data()]) if d.opset < 13 else ({"axis": axis}, [d.data(), _list(sizes)])
        )
    d.outputs = d.pick([n for n in (1, 2, 3) if d.opset >= 18 or size % n == 0])
    return {"axis": axis, **({"num_outputs": d.outputs} if d.opset >= 18 else {})}, [d.data()]


def _slice(d: _Draw) -> Drawn:
    axes = d.some_axes()
    starts, ends = [[d.pick(bounds) for _ in axes] for bounds in ((0, 0, 1, -1, 2, -5), (2, 3, -1, 2**31 - 1, -9))]
    if d.opset < 10:
        return {"starts": starts or [0], "ends": ends or [1], **({"axes": axes} if axes else {})}, [d.data()]
    steps = [d.pick((1, 1, 2, -1)) for _ in axes] if d.number(0, 2) else None
    for i in [i for i, step in enumerate(steps or ()) if step < 0]:
        # `sliceport.defects` has the backward Slices that onnxruntime computes wrongly: their bounds are farther away.
        starts[i], ends[i] = max(starts[i], -d.shape[axes[i]]), d.pick((0, -1, -9))
    return {}, [d.data(), _list(starts), _list(ends), _list(axes), None if steps is None else _list(steps)]


def _shape(d: _Draw) -> Drawn:
    names = [name for name in ("start", "end") if d.opset >= 15 and d.number(0, 2)]
    return {name: d.number(-d.rank - 1, d.rank + 2) for name in names}, [d.data()]


def _constant(d: _Draw) -> Drawn:
    values = {"value_int": d.number(-9, 9), "value_ints": [1, 2], "value_float": 0.5, "value_floats": [0.5, 1.5]}
    name = d.pick(list(values)) if d.opset >= 12 and d.number(0, 2) else "value"
    return {name: values.get(name, numpy_helper.from_array(d.data()))}, []


def _one_hot(d: _Draw) -> Drawn:
    depth = d.pick((np.array(d.number(1, 4)), _list([d.number(1, 4)])))
    d.dtype = d.pick((np.int64, np.int64, np.float32))
    return {"axis": d.number(-d.rank - 1, d.rank + 1)}, [
        d.data(),
        depth,
        np.array([0, 1], d.pick((np.float32, np.int64))),
    ]


def _top_k(d: _Draw) -> Drawn:
    d.outputs, axis, d.dtype = 2, d.axis(), np.float32
    k = d.number(0, (d.shape[axis] if d.rank else 1) + 1)
    return ({"axis": axis, "k": k}, [d.data()]) if d.opset < 10 else ({"axis": axis}, [d.data(), _list([k])])


def _clip(d: _Draw) -> Drawn:
    if d.opset < 11:
        d.dtype = np.float32
        return {"min": -1.0, "max": 2.0}, [d.data()]
    return {}, [d.data(), d.pick((d.array(), None)), d.pick((d.array(), None))]


def _scatter(d: _Draw) -> Drawn:
    d.opset, axis = min(d.opset, 10), d.axis()
    return {"axis": axis}, [d.data(), d.index(d.shape[axis] if d.rank else 1, *d.shape), d.data()]


def _typed(make: Callable[[_Draw], Drawn], *dtypes: Any) -> Callable[[_Draw], Drawn]:
    """Return a maker that draws the data from these types."""

    def make_typed(d: _Draw) -> Drawn:
        d.dtype = d.pick(dtypes)
        return make(d)

    return make_typed


def _unary(d: _Draw) -> Drawn:
    return {}, [d.data()]


def _binary(d: _Draw) -> Drawn:
    return {}, [d.data(), d.broadcast()]


def _trilu(d: _Draw) -> Drawn:
    data = d.array(*d.shape, *[d.pick(_SIZES)] * (2 - min(d.rank, 2)))
    return {"upper": d.number(0, 2)}, [data, d.pick((np.array(d.number(-3, 4)), None))]


def _constant_of_shape(d: _Draw) -> Drawn:
    value = {"value": numpy_helper.from_array(d.array(1))} if d.number(0, 4) else {}
    return value, [_list(d.shape)]


def _expand(d: _Draw) -> Drawn:
    wanted = [d.pick((1, size, size if size != 1 else d.pick(_SIZES))) for size in d.shape]
    return {}, [d.data(), _list([*[d.pick(_SIZES)] * d.number(0, 2), *wanted[d.number(0, 2) :]] if wanted else [2])]


def _branch(d: _Draw, name: str) -> onnx.GraphProto:
    """Draw a graph without inputs that gives a constant, or the value `i1` as it is or stacked."""
    kind = d.number(0, 3)
    nodes = [helper.make_node("Identity", ["i1"], [name])]
    if kind == 1:
        nodes = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(d.array(*d.shape[1:])))]
    elif kind == 2:
        nodes = [helper.make_node("Concat", ["i1", "i1"], [name], axis=0)]
    return helper.make_graph(nodes, name, [], [_declare(d, name)])


def _declare(d: _Draw, name: str, dtype: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype or d.dtype)), None)


def _if(d: _Draw) -> Drawn:
    condition = np.array([d.number(0, 2)] if d.number(0, 2) else d.number(0, 2), bool)
    return {f"{name}_branch": _branch(d, name) for name in ("then", "else")}, [condition, d.data()]


def _copy_or_concat(inputs: list[str], output: str) -> onnx.NodeProto:
    if len(inputs) == 1:
        return helper.make_node("Identity", inputs, [output])
    return helper.make_node("Concat", inputs, [output], axis=0)


def _loop(d: _Draw) -> Drawn:
    """Draw a Loop with one carried value, which may grow, and one scan output."""
    kept = d.pick((helper.make_node("Identity", ["ci"], ["co"]), helper.make_node("Not", ["ci"], ["co"])))
    carried, collected = d.pick((["vi"], ["vi", "vi"], ["i3"])), d.pick((["i3"], ["vo"], ["i3", "i3"]))
    nodes = [kept, _copy_or_concat(carried, "vo"), _copy_or_concat(collected, "so")]
    inputs = [_declare(d, "it", np.int64), _declare(d, "ci", np.bool_), _declare(d, "vi")]
    inputs[0].type.tensor_type.shape.SetInParent()
    inputs[1].type.tensor_type.shape.SetInParent()
    outputs = [_declare(d, "co", np.bool_), _declare(d, "vo"), _declare(d, "so")]
    if collected == ["i3"]:
        for size in d.shape if d.number(0, 3) else ():
            outputs[2].type.tensor_type.shape.dim.add(dim_value=size)
    body = helper.make_graph(nodes, "body", inputs, outputs)
    d.outputs = 2
    condition = d.pick((None, np.array(True), np.array(bool(d.number(0, 2)))))
    trips = None if condition is not None and kept.op_type == "Not" and d.number(0, 2) else np.array(d.number(0, 3))
    return {"body": body}, [trips, condition, d.data(), d.data()]


def _scan(d: _Draw) -> Drawn:
    """Draw a Scan over the first axis of `i1`, with one state."""
    nodes = [helper.make_node("Identity", ["si"], ["st"]), helper.make_node("Identity", ["xi"], ["so"])]
    body = helper.make_graph(
        nodes, "body", [_declare(d, n) for n in ("si", "xi")], [_declare(d, n) for n in ("st", "so")]
    )
    d.opset, d.outputs = max(d.opset, 9), 2
    return {"body": body, "num_scan_inputs": 1}, [d.data(), d.array(d.number(0, 3), 2)]


_BINARY = "Add Sub Mul Equal Less Greater LessOrEqual GreaterOrEqual"
_UNARY = "Neg Abs Sign NonZero Identity Size"
_REDUCING = "Sum Prod Max Min Mean L1 L2 LogSum LogSumExp SumSquare"
_OF_ONE_AXIS = "Softmax LogSoftmax Hardmax LpNormalization"
_READ_AS_OUTER = {"If": 1, "Loop": 3}
"""Operators whose graphs read the inputs from this number on; the node itself does not."""

_MAKERS: dict[str, Callable[[_Draw], Drawn]] = {
    **dict.fromkeys(_BINARY.split(), _binary),
    **dict.fromkeys(("And", "Or", "Xor"), _typed(_binary, np.bool_)),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _typed(_binary, *_INTEGERS)),
    **dict.fromkeys(_UNARY.split(), _unary),
    **dict.fromkeys(("Sqrt", "Floor", "Ceil", "Round"), _typed(_unary, np.float32, np.float64)),
    "Not": _typed(_unary, np.bool_),
    "BitwiseNot": _typed(_unary, *_INTEGERS),
    **dict.fromkeys(("Div", "Mod"), _divide),
    **dict.fromkeys(("Min", "Max"), lambda d: ({}, [d.data(), *[d.broadcast() for _ in range(d.number(0, 3))]])),
    **dict.fromkeys([f"Reduce{kind}" for kind in _REDUCING.split()], _reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(_OF_ONE_AXIS.split(), _typed(lambda d: ({"axis": d.axis()}, [d.data()]), np.float32)),
    "MeanVarianceNormalization": _typed(lambda d: ({"axes": d.some_axes() or [0]}, [d.data()]), np.float32),
    "Clip": _clip,
    "CumSum": lambda d: ({"exclusive": d.number(0, 2), "reverse": d.number(0, 2)}, [d.data(), np.array(d.axis())]),
    "Range": _range,
    "Trilu": _trilu,
    "Where": lambda d: ({}, [np.asarray(d.rng.integers(0, 2, d.shape), bool), d.data(), d.broadcast()]),
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": lambda d: ({"k": d.number(-5, 5)}, [d.array(d.pick(_SIZES), d.pick(_SIZES))]),
    "Compress": lambda d: (
        {"axis": d.axis()} if d.rank and d.number(0, 3) else {},
        [d.data(), np.asarray(d.rng.integers(0, 2, d.number(0, 6)), bool)],
    ),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": lambda d: ({"axis": d.number(-d.rank, d.rank + 1)}, [d.data()]),
    "Transpose": lambda d: (
        {"perm": d.rng.permutation(d.rank).tolist()} if d.rank and d.number(0, 2) else {},
        [d.data()],
    ),
    "Expand": _expand,
    "Tile": lambda d: ({}, [d.data(), _list([d.number(0, 3) for _ in d.shape])]),
    "Cast": lambda d: ({"to": d.pick(_CASTS)}, [d.data()]),
    "Shape": _shape,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "Scatter": _scatter,
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
OPERATORS = tuple(_MAKERS)


def draw_case(op_type: str, number: int) -> NodeCase:
    """Draw a case of one of `OPERATORS`; models that onnxruntime refuses are among them."""
    d = _Draw(op_type, np.random.default_rng([number, *op_type.encode()]))
    attributes, arrays = _MAKERS[op_type](d)
    graph = onnx.GraphProto(name="g")
    opsets = [helper.make_opsetid("", d.opset)]
    case = NodeCase(onnx.ModelProto(ir_version=8, graph=graph, opset_import=opsets))
    names = ["" if array is None else f"i{k}" for k, array in enumerate(arrays)]
    are_all_known = not d.number(0, 4)
    for name, array in zip(names, arrays, strict=True):
        if array is not None:
            _add_input(case, name, array, d, is_known=are_all_known or not d.number(0, 2))
    read = names[: _READ_AS_OUTER.get(op_type, len(names))]
    outputs = [f"y{k}" for k in range(d.outputs)]
    case.model.graph.node.append(helper.make_node(op_type, read, outputs, **attributes))
    case.model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return case


def _add_input(case: NodeCase, name: str, array: Array, d: _Draw, *, is_known: bool) -> None:
    """Add an array to the model: a constant, an input of more or less known shape, or a list with known entries."""
    graph = case.model.graph
    if is_known:
        graph.initializer.append(numpy_helper.from_array(array, name))
    elif array.dtype in _PARTLY_KNOWN_TYPES and 0 < array.size <= _MAX_PARTLY_KNOWN and d.number(0, 3):
        parts = [f"{name}_{k}" for k in range(array.size)]
        for part, element in zip(parts, array.reshape(-1, 1), strict=True):
            if d.number(0, 2):
                graph.initializer.append(numpy_helper.from_array(element, part))
            else:
                _declare_input(case, part, element, [1])
        graph.initializer.append(numpy_helper.from_array(_list(array.shape), f"{name}_shape"))
        graph.node.append(helper.make_node("Concat", parts, [f"{name}_list"], axis=0))
        graph.node.append(helper.make_node("Reshape", [f"{name}_list", f"{name}_shape"], [name]))
    else:
        kind = d.number(0, 5)
        dims = [d.pick((size, None, f"s{size}")) if kind else size for size in array.shape]
        case.sizes.update({f"s{size}": size for size in array.shape})
        _declare_input(case, name, array, None if kind == 1 else dims)


def _declare_input(case: NodeCase, name: str, array: Array, dims: Sequence[int | str | None] | None) -> None:
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    case.model.graph.input.append(helper.make_tensor_value_info(name, element, dims))
    case.feeds[name] = array


@dataclass(frozen=True)
class Verdict:
    """The result of one case: whether onnxruntime ran it, how much was inferred, and the first wrong claim."""

    ran: bool
    claims: int = 0
    wrong: str = ""


def check_case(case: NodeCase) -> Verdict:
    """Compare the facts that are inferred for the node's outputs with the tensors that onnxruntime computes."""
    model = case.model
    shapes = [*(array.shape for array in case.feeds.values()), *(tensor.dims for tensor in model.graph.initializer)]
    if _CRASHES_ON_EMPTY and any(0 in shape for shape in shapes):
        return Verdict(ran=False)
    facts = propagate(model.SerializeToString())
    try:
        tensors = open_session(model, optimized=False).run(None, case.feeds)
    except Exception:
        return Verdict(ran=False)
    first = len(model.graph.input) + sum(len(node.output) for node in model.graph.node[:-1])
    inferred = facts[first : first + len(case.node.output)]
    pairs = list(zip(inferred, map(np.asarray, tensors), strict=True))
    wrong = next(filter(None, (_find_wrong_claim(case, one, tensor) for one, tensor in pairs)), "")
    claims = sum((one.dims is not None) + (one.data is not None or one.integers is not None) for one in inferred)
    return Verdict(ran=True, claims=claims, wrong=wrong and f"{case.node.op_type} {wrong}")


def _find_wrong_claim(case: NodeCase, facts: Facts, tensor: Array) -> str:
    """Return the first claim that does not hold for a tensor, or an empty string."""
    element = TensorProto.STRING if tensor.dtype == object else helper.np_dtype_to_tensor_dtype(tensor.dtype)
    if facts.element not in (0, element):
        return f"type: {facts.element}, but it is {element}"
    if facts.dims is not None and len(facts.dims) != tensor.ndim:
        return f"rank: {facts.dims}, but it is {tensor.shape}"
    dims = [case.sizes.get(dim) if isinstance(dim, str) else dim for dim in facts.dims or ()]
    if any(dim is not None and dim != size for dim, size in zip(dims, tensor.shape, strict=False)):
        return f"sizes: {facts.dims}, but they are {tensor.shape}"
    if facts.data is not None and facts.data.tobytes() != tensor.tobytes():
        return f"elements: {facts.data.tolist()}, but they are {tensor.tolist()}"
    elements = [] if facts.integers is None else list(zip(facts.integers.flat, tensor.flat, strict=True))
    if any(claim is not None and claim != element for claim, element in elements):
        return f"known elements: {elements}"
    return ""

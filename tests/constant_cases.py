"""Nodes of constants, with the elements that engines are likely to compute differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[Any]
_INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)
_TYPES = (*_INTEGERS, np.int64, np.int64, np.float32, np.float32, np.float64, np.bool_)
_SHAPES: Sequence[tuple[int, ...]] = ((), (1,), (4,), (2, 3), (0,), (3, 0), (70,), (2, 2, 3))
_WHOLE = (-(2**62), -(2**53) - 1, -(2**31) - 1, -(2**24) - 1, -129, -2, -1, 0, 1, 2, 3, 127, 255, 2**24 + 1, 2**31 + 1)
_REAL = (0.0, -0.0, 0.1, -0.1, 1, -1, 0.5, 1.5, 2.5, -2.5, 3e38, 1e-45, 1e-40, np.inf, -np.inf, np.nan, 2**24, 2**31)
_BINARY = "Add Sub Mul Div Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor"
_UNARY = "Neg Abs Sign Not BitwiseNot Sqrt Floor Ceil Round NonZero Identity"
_CASTS = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16)


@dataclass(frozen=True)
class ConstantCase:
    """A node, what it reads, and the version of its operator set."""

    node: onnx.NodeProto
    arrays: list[Array]
    opset: int


class _Draw:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dtype: Any = _TYPES[int(rng.integers(len(_TYPES)))]
        self.shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
        self.rank = len(self.shape)
        self.opset = int(rng.choice([8, 11, 13, 17, 18]))

    def array(self, *shape: int) -> Array:
        """Elements at the limits of the type."""
        kind = np.dtype(self.dtype).kind
        if kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape), bool)
        pool: Sequence[float] = _REAL
        if kind in "iu":
            limits = np.iinfo(self.dtype)
            pool = [n for n in (limits.min, *_WHOLE, limits.max) if limits.min <= n <= limits.max]
        return np.asarray(self.rng.choice(np.array(pool, self.dtype), shape))

    def data(self) -> Array:
        return self.array(*self.shape)

    def broadcast(self) -> Array:
        """What broadcasts to the data."""
        shapes: Sequence[tuple[int, ...]] = (self.shape, (), (1,) * self.rank)
        return self.array(*shapes[self.number(0, len(shapes))])

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def axis(self) -> int:
        return self.number(-max(self.rank, 1), max(self.rank, 1))

    def index(self, size: int, *shape: int) -> Array:
        return np.asarray(self.rng.integers(-size, size, shape))


Made = tuple[dict[str, Any], list[Array]]
"""The attributes of a node, and what it reads."""


def _range(d: _Draw) -> Made:
    if d.dtype in (np.float32, np.float64):
        return {}, [np.array(n, d.dtype) for n in (d.number(-4, 4) * 0.1, d.number(4, 40) * 0.1, d.number(1, 9) * 0.1)]
    d.dtype = np.int64
    return {}, [np.array(d.number(-9, 9)), np.array(d.number(-9, 30)), np.array(d.number(-3, 4))]


def _reduce(d: _Draw, *, first_by_input: int) -> Made:
    attributes: dict[str, Any] = {"keepdims": d.number(0, 2)}
    if not d.number(0, 3):
        return attributes, [d.data()]
    if d.opset < first_by_input:
        return {"axes": [d.axis()], **attributes}, [d.data()]
    axes = np.array([d.axis()] if d.rank and d.number(0, 3) else [], np.int64)
    return {"noop_with_empty_axes": d.number(0, 2), **attributes}, [d.data(), axes]


def _squeeze(d: _Draw) -> Made:
    return {}, [d.array(1, 4, 1)]


def _unsqueeze(d: _Draw) -> Made:
    d.opset = max(d.opset, 13)
    return {}, [d.data(), np.array([d.number(-d.rank - 1, d.rank + 1)])]


def _reshape(d: _Draw) -> Made:
    allowzero = {"allowzero": d.number(0, 2)} if d.opset >= 14 else {}
    return allowzero, [d.data(), np.array([-1, d.number(0, 3)][: d.number(1, 3)])]


def _compress(d: _Draw) -> Made:
    attributes = {"axis": d.axis()} if d.rank and d.number(0, 2) else {}
    return attributes, [d.data(), np.asarray(d.rng.integers(0, 2, d.number(0, 6)), bool)]


def _gather_elements(d: _Draw) -> Made:
    d.opset = max(d.opset, 11)
    return {"axis": 0}, [d.array(80, 2), d.index(80, 80, 2)]


def _gather_nd(d: _Draw) -> Made:
    d.opset = max(d.opset, 11)
    batches = {"batch_dims": d.number(0, 2)} if d.opset >= 12 else {}
    return batches, [d.array(3, 4), d.index(3, 3, 1)]


def _arg(d: _Draw) -> Made:
    d.opset = max(d.opset, 13)
    return {"axis": d.axis(), "keepdims": d.number(0, 2), "select_last_index": d.number(0, 2)}, [d.data()]


def _trilu(d: _Draw) -> Made:
    d.opset = max(d.opset, 14)
    return {"upper": d.number(0, 2)}, [d.array(3, 4), np.array(d.number(-6, 6))]


_MAKERS: dict[str, Callable[[_Draw], Made]] = {
    **dict.fromkeys(_BINARY.split(), lambda d: ({}, [d.data(), d.broadcast()])),
    **dict.fromkeys(_UNARY.split(), lambda d: ({}, [d.data()])),
    **dict.fromkeys(("Min", "Max"), lambda d: ({}, [d.data(), d.data(), d.broadcast()])),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceProd"), lambda d: _reduce(d, first_by_input=18)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    "ReduceSum": lambda d: _reduce(d, first_by_input=13),
    "Mod": lambda d: ({"fmod": d.number(0, 2)}, [d.data(), d.data()]),
    "Clip": lambda d: ({}, [d.data(), d.array(), d.array()]),
    "Cast": lambda d: ({"to": int(d.rng.choice(_CASTS))}, [d.data()]),
    "CumSum": lambda d: ({"exclusive": d.number(0, 2), "reverse": d.number(0, 2)}, [d.data(), np.array(d.axis())]),
    "Range": _range,
    "Trilu": _trilu,
    "Where": lambda d: ({}, [np.asarray(d.rng.integers(0, 2, d.shape), bool), d.data(), d.broadcast()]),
    "ConstantOfShape": lambda d: ({"value": numpy_helper.from_array(d.array(1))}, [np.array(d.shape, np.int64)]),
    "EyeLike": lambda d: ({"k": d.number(-5, 5)}, [d.array(3, 4)]),
    "Compress": _compress,
    "Gather": lambda d: ({"axis": d.number(-2, 2)}, [d.array(3, 4), d.index(3, *[2] * d.number(0, 3))]),
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Concat": lambda d: ({"axis": d.axis()}, [d.data(), d.data()]),
    "Split": lambda d: ({"axis": -1, **({"num_outputs": 2} if d.opset >= 18 else {})}, [d.array(3, 4)]),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": lambda d: ({"axis": d.number(-d.rank, d.rank + 1)}, [d.data()]),
    "Transpose": lambda d: ({}, [d.data()]),
    "Expand": lambda d: ({}, [d.data(), np.array([2, *[1] * d.rank])]),
    "Tile": lambda d: ({}, [d.data(), np.array([2] * d.rank, np.int64)]),
}
OPERATORS = frozenset(_MAKERS)


def draw_case(op_type: str, seed: int) -> ConstantCase:
    """A case of one of `OPERATORS`; shapes that do not fit are among them."""
    draw = _Draw(np.random.default_rng([seed, *op_type.encode()]))
    attributes, arrays = _MAKERS[op_type](draw)
    names = [chr(ord("a") + i) for i in range(len(arrays))]
    node = helper.make_node(op_type, names, ["y", "z"] if op_type == "Split" else ["y"], **attributes)
    return ConstantCase(node, arrays, draw.opset)


def as_model(case: ConstantCase) -> onnx.ModelProto:
    """A model of the node; what it reads are inputs."""
    given = zip(case.node.input, case.arrays, strict=True)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given]
    graph = helper.make_graph([case.node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in case.node.output])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", case.opset)])

"""What a node computes of constants, where every engine computes the same bits; in the worker process of `inference`.

onnx's reference computes most of it. It is asked about no other operator: it rounds sines and orders sums in its own
way, and reads some operators of old operator sets as those of today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_ops.shape_arithmetic import Array

_MOVE = """
    Constant Identity Gather GatherElements GatherND Concat Slice Split Squeeze Unsqueeze Reshape Flatten Transpose
    Expand Tile
"""
_COMPUTE_INTEGERS = """
    Add Sub Mul Div Mod Neg Abs Sign Min Max Sum Clip Range CumSum Equal Less Greater LessOrEqual GreaterOrEqual And Or
    Xor Not BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift ReduceSum ReduceProd ReduceMax ReduceMin ArgMax ArgMin
    OneHot Trilu Scatter ScatterElements ScatterND
"""
MOVING = frozenset(_MOVE.split())
"""Operators that compute nothing with the elements of their data."""
_SELECTING = MOVING | {"Where", "ConstantOfShape", "EyeLike", "NonZero", "Compress"}
_OF_INTEGERS = frozenset(_COMPUTE_INTEGERS.split())
_COMPARE = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
ROUNDED_ALIKE = frozenset(("Add", "Sub", "Mul", "Div", "Sqrt", "Neg", "Abs", "Floor", "Ceil", *_COMPARE))
"""What IEEE 754 leaves no choice in, of floats of 32 and 64 bits."""
_OF_FLOATS = ROUNDED_ALIKE | {"Round", "Min", "Max"}
INTEGERS_END = 2**31
"""Floats from here on are cast to integers in different ways."""
_BROADCAST_OPSET = 7
_RANGE = ("start", "limit", "delta")
_EXACT_INTEGERS_END = 2**24
_CLEAR = 1e-3
"""How far a quotient must be from an integer, in parts of itself, for no engine to round it over that."""


def evaluate(node: onnx.NodeProto, given: Sequence[Array | None], opset: int) -> Sequence[Any]:
    """A standard node's outputs; none where engines may differ, or where nothing knows it.

    Args:
        node: The node.
        given: What it reads, None for what is left out.
        opset: The version of its operator set.
    """
    arrays = [array for array in given if array is not None]
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if not _computes_alike(node.op_type, arrays) or (opset < _BROADCAST_OPSET and attributes.get("broadcast")):
        return ()
    own = _OWN.get(node.op_type)
    try:
        if own is not None:
            return (own(*given, **attributes),)
        from onnx.reference.ops import load_op

        results = load_op("", node.op_type, opset).eval(*given, n_outputs=len(node.output), **attributes)
    except Exception:
        return ()
    outputs = results if isinstance(results, tuple) else (results,)
    if node.op_type not in _SELECTING and any(_has_nan(array) for array in outputs):
        return ()  # whose bits may be those of either operand
    if node.op_type == "Cast" and arrays[0].dtype.kind == "f" and outputs[0].dtype.kind not in "fb":
        return outputs if casts_alike(arrays[0]) else ()
    return outputs


def casts_alike(array: Array) -> bool:
    """Whether every engine casts floats to the same integers of 32 bits or more."""
    return bool((np.abs(array) < INTEGERS_END).all())


def has_clear_length(bounds: Sequence[Array | None]) -> bool:
    """Whether every engine counts as many numbers from a start to an end by a step, however it rounds.

    Args:
        bounds: What a Range reads, as far as it is known.
    """
    if any(bound is None or bound.dtype.kind in "iu" for bound in bounds):
        return True  # nothing is said of its length, or all are integers
    numbers = [float(np.asarray(bound).reshape(-1)[0]) for bound in bounds if bound is not None and bound.size]
    if len(numbers) < len(_RANGE) or not np.isfinite(numbers).all() or numbers[2] == 0:
        return False
    if all(number.is_integer() and abs(number) < _EXACT_INTEGERS_END for number in numbers):
        return True
    count = (numbers[1] - numbers[0]) / numbers[2]
    return abs(count - round(count)) > _CLEAR * max(1.0, abs(count))


def _computes_alike(op_type: str, arrays: Sequence[Array]) -> bool:
    if op_type in _SELECTING:
        return True
    if op_type == "Cast":
        return all(array.dtype.kind in "iufb" for array in arrays)
    if all(array.dtype.kind in "iub" for array in arrays):
        is_division = op_type in ("Div", "Mod")
        return op_type in _OF_INTEGERS and not (is_division and np.isin(arrays[-1], (0, -1)).any())
    return op_type in _OF_FLOATS and all(array.dtype in (np.float32, np.float64) for array in arrays)


def _has_nan(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "fc" and bool(np.isnan(array).any())


def _expand(data: Array, shape: Array) -> Array:
    return np.array(np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape.tolist()))))


def _gather_elements(data: Array, indices: Array, axis: int = 0) -> Array:
    axis %= data.ndim
    rest = tuple([slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape)])
    return np.take_along_axis(data[rest], np.where(indices < 0, indices + data.shape[axis], indices), axis)


_OWN: dict[str, Callable[..., Array]] = {"Expand": _expand, "GatherElements": _gather_elements}

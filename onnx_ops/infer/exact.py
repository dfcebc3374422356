"""Evaluation of nodes on constants, restricted to cases in which every engine computes the same bits.

Most operators run on onnx's reference implementation. Operators outside the lists below are not computed, because
the reference may differ from engines. For example, it rounds sines in its own way, and computes some old versions of
operators like the newest version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_ops.infer.facts import INTEGER_LIMITS, MAX_BYTES, Facts, matches_facts
from onnx_ops.infer.shape_arithmetic import BROADCAST_OPSET, compute_elements, divide
from onnx_ops.model.views import Array

MOVING = frozenset(
    "Constant Identity Gather GatherElements GatherND Concat Slice Split Squeeze Unsqueeze Reshape Flatten Transpose "  # noqa: SIM905
    "Expand Tile".split()
)
"""Operators that move the elements of their data and compute nothing."""
_SELECTING = MOVING | {"Where", "ConstantOfShape", "EyeLike", "NonZero", "Compress"}
# The output is small if the input is, so they are computed although the size of the output is unknown.
_SHRINKING = frozenset(("NonZero", "Compress"))
_REDUCING = frozenset(("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin"))
ONLY_OF_INT32 = _REDUCING | {"Min", "Max", "Clip", "Sign", "Mod"}
"""Operators that onnxruntime computes wrongly for some integers beyond 32 bits."""
_INTEGER_OPERATORS = frozenset(
    "Add Sub Mul Div Mod Neg Abs Sign Min Max Clip Range CumSum Equal Less Greater LessOrEqual GreaterOrEqual And Or "  # noqa: SIM905
    "Xor Not BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ReduceSum ReduceProd ReduceMax ReduceMin ArgMax ArgMin "
    "Trilu".split()
)
_COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
ROUNDED_ALIKE = frozenset(("Add", "Sub", "Mul", "Div", "Sqrt", "Neg", "Abs", "Floor", "Ceil", *_COMPARISONS))
"""Operators for which IEEE 754 defines every bit of the results on floats of 32 and 64 bits."""
_FLOAT_OPERATORS = ROUNDED_ALIKE | {"Round", "Min", "Max"}
OPERATORS = _SELECTING | _INTEGER_OPERATORS | _FLOAT_OPERATORS | {"Cast"}
"""Operators whose outputs are known for constant inputs of some element types.

`evaluate` computes the outputs, except those of Constant, which has no inputs.
"""
_FLOATS = (np.float32, np.float64)
_INT32 = np.iinfo(np.int32)
_EXACT_INTEGERS_END = 2**24
"""32-bit floats can store every integer up to this one, but not every larger one."""
_MIN_NORMAL, _MAX_FLOAT = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
# Rounding may move a quotient across an integer if the two differ by less than this fraction of the quotient.
_MIN_DISTANCE = 1e-3


def evaluate(node: onnx.NodeProto, inputs: Sequence[Array | None], opset: int) -> Sequence[Any]:
    """Compute the outputs of a standard node with inputs. Return () if engines may differ, or the computation fails.

    Args:
        node: The node.
        inputs: The elements of its inputs; None for each one that is left out.
        opset: The version of its operator set.
    """
    arrays = [array for array in inputs if array is not None]
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    # Before operator set 7, `broadcast` may align the smaller input with any axis, which the reference does not do.
    is_old_broadcast = opset < BROADCAST_OPSET and attributes.get("broadcast")
    # onnx 1.18 reduces all axes if the list of axes is empty, whatever noop_with_empty_axes is.
    has_empty_axes = node.op_type in _REDUCING and len(arrays) > 1 and not arrays[1].size
    if not arrays or is_old_broadcast or has_empty_axes or not _computes_alike(node.op_type, arrays):
        return ()
    own_function = _FUNCTIONS.get(node.op_type)
    try:
        if own_function is not None:
            results = own_function(*inputs, **attributes)
        else:
            from onnx.reference.ops import load_op

            results = load_op("", node.op_type, opset).eval(*inputs, n_outputs=len(node.output), **attributes)
    except Exception:
        return ()
    outputs = results if isinstance(results, tuple) else (results,)
    return outputs if _is_exact(node.op_type, arrays, outputs) else ()


def casts_alike(array: Array, dtype: np.dtype[Any]) -> bool:
    """Return whether every engine certainly casts an array to the same elements of another type.

    Engines differ for a float that is NaN or out of the range of the new type, and for a float beyond the range of
    int32 that is cast to an integer. All engines cast an integer to a smaller type by keeping its lowest bits.
    """
    # Engines may round differently to float types of other sizes, such as float16.
    if dtype.kind not in "iub" and dtype not in _FLOATS:
        return False
    if array.dtype.kind != "f":
        # Every integer is in the range of `_FLOATS`, and IEEE 754 defines how it is rounded.
        return array.dtype.kind in "iub"
    if np.isnan(array).any():
        return False
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bool(np.array_equal(np.isinf(array), np.isinf(array.astype(dtype))))
    if dtype.kind == "b" or not array.size:
        return True
    limits, least, greatest = np.iinfo(dtype), float(array.min()), float(array.max())
    if not _INT32.min <= least <= greatest <= _INT32.max:
        return False
    return limits.min <= int(least) and int(greatest) <= limits.max


def may_fail_to_divide(divisor: Array) -> bool:
    """Return whether a division of integers by `divisor` may fail.

    A division by 0, or of the least integer by -1, ends the process of some engines.
    """
    return not divisor.all() or (divisor.dtype.kind == "i" and bool((divisor == -1).any()))


def is_range_length_certain(bounds: Sequence[Array | None]) -> bool:
    """Return whether every engine gives a Range the length that onnx infers; True if onnx infers no length.

    Args:
        bounds: The start, end and step of the Range, None for each that is open.
    """
    # onnx infers no length from open bounds, and integers are not rounded.
    if any(bound is None or bound.dtype.kind in "iu" for bound in bounds):
        return True
    numbers = [float(np.asarray(bound).reshape(-1)[0]) for bound in bounds if bound is not None and bound.size]
    if len(numbers) != 3:
        return False
    start, end, step = numbers
    span = end - start
    # Some engines compute with 32-bit floats instead of doubles, and some take floats below the normal ones for 0.
    if step == 0 or not all(n == 0 or _MIN_NORMAL <= abs(n) <= _MAX_FLOAT for n in (*numbers, span)):
        return False
    ratios = [number.as_integer_ratio() for number in (*numbers, span)]
    scale = max(denominator for _, denominator in ratios)  # a power of 2, so products with it are exact
    # The length is certain if, in units of 1 / scale, all numbers are integers that 32-bit floats store exactly. Then
    # span / step is an integer, or differs from each integer by at least 1 / step, and no rounding error is that large.
    # `scale` is limited to keep clear of tiny floats, which some engines take for 0.
    if scale < _EXACT_INTEGERS_END and all(abs(n) * (scale // d) < _EXACT_INTEGERS_END for n, d in ratios):
        return True
    # The length is `quotient` rounded up. If it is too close to an integer, rounding errors may change the length.
    quotient, float_quotient = span / step, (float(np.float32(end)) - float(np.float32(start))) / step
    return abs(quotient - round(quotient)) > _MIN_DISTANCE * max(1.0, abs(quotient)) + abs(float_quotient - quotient)


def _computes_alike(op_type: str, arrays: Sequence[Array]) -> bool:
    """Return whether engines compute an operator alike for these types; False if a division of integers may fail."""
    if op_type in _SELECTING:
        return True
    if op_type == "Cast":
        return all(array.dtype.kind in "iufb" for array in arrays)
    if all(array.dtype.kind in "iub" for array in arrays):
        may_fail = op_type in ("Div", "Mod") and may_fail_to_divide(arrays[-1])
        return op_type in _INTEGER_OPERATORS and not may_fail
    return op_type in _FLOAT_OPERATORS and all(array.dtype in _FLOATS for array in arrays)


def _is_exact(op_type: str, arrays: Sequence[Array], outputs: Sequence[Any]) -> bool:
    """Return whether all engines compute these outputs from `arrays`. `_computes_alike` must be true for `arrays`."""
    if op_type == "Cast":
        return casts_alike(arrays[0], outputs[0].dtype)
    if op_type == "Where":
        # onnxruntime adds the selected elements to zeros, which changes the bits of NaNs and of -0.
        return not any(_has_nan(array) or _has_negative_zero(array) for array in outputs)
    if op_type == "NonZero":
        return arrays[0].ndim > 0  # engines differ about a scalar
    if op_type == "Compress" and not arrays[0].size:
        return False  # NumPy selects elements from empty data if the condition is longer than the data
    if op_type in _SELECTING:
        return True
    if op_type in _REDUCING and not arrays[0].size:
        return False  # engines reduce empty data differently
    if any(map(_has_nan, outputs)):
        return False  # an engine may keep the NaN of either operand
    if op_type in ("Min", "Max") and any(map(_has_negative_zero, arrays)):
        return False  # -0 is equal to 0, so engines may return either
    if op_type in ("ReduceSum", "ReduceProd"):
        # Engines may add or multiply in any order. No partial result exceeds the sum or product below.
        magnitudes = np.abs(arrays[0].astype(np.float64))
        if (magnitudes.sum() if op_type == "ReduceSum" else np.maximum(magnitudes, 1).prod()) > _INT32.max:
            return False
    return op_type not in ONLY_OF_INT32 or all(_fits_int32(array) for array in arrays if array.dtype.kind in "iu")


def _has_nan(array: Any) -> bool:
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def _has_negative_zero(array: Any) -> bool:
    # Complex numbers are left out: the callers test Min, Max and Where, which engines do not compute for them.
    return array.dtype.kind == "f" and bool(np.signbit(array[array == 0]).any())


def _fits_int32(array: Array) -> bool:
    return not array.size or (int(array.min()) >= _INT32.min and int(array.max()) <= _INT32.max)


def _expand(data: Array, shape: Array) -> Array:
    """Expand without arithmetic, because onnx's reference multiplies by 1, which changes bits of signalling NaNs."""
    return np.array(np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape.tolist()))))


def _gather_elements(data: Array, indices: Array, axis: int = 0) -> Array:
    """Gather elements here, because onnx's reference fails on long axes and on indices shorter than the data."""
    axis %= data.ndim
    # `take_along_axis` needs equal sizes on the other axes. ONNX lets the indices be shorter there.
    window = tuple([slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape)])
    return np.take_along_axis(data[window], np.where(indices < 0, indices + data.shape[axis], indices), axis)


def _divide(dividend: Array, divisor: Array) -> Array:
    """Divide arrays. Integers are divided by `divide`, because onnx 1.18 divides them as floats."""
    if dividend.dtype.kind == "f":
        return np.asarray(dividend / divisor)
    return np.asarray(np.frompyfunc(divide, 2, 1)(dividend.astype(object), divisor.astype(object)), dividend.dtype)


_FUNCTIONS: dict[str, Callable[..., Array]] = {"Div": _divide, "Expand": _expand, "GatherElements": _gather_elements}


def _compute_integers(node: onnx.NodeProto, inputs: Sequence[Facts], outputs: Sequence[Facts], opset: int) -> None:
    """Compute the integers of a node's only output from those of its inputs if possible. Store them in `outputs`."""
    sizes = outputs[0].sizes if len(outputs) == 1 else None
    if sizes is None or outputs[0].element not in (*INTEGER_LIMITS, onnx.TensorProto.BOOL):
        return
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    input_integers = [facts.list_integers() for facts in inputs]
    integers = compute_elements(node.op_type, input_integers, attributes, sizes, opset)
    if integers is not None:
        outputs[0].set_integers(integers)


def compute_few_elements(node: onnx.NodeProto, inputs: Sequence[Facts], outputs: Sequence[Facts], opset: int) -> None:
    """Compute elements of `outputs` if they are few and engines agree on them. Store the elements and shapes."""
    if any(facts.data is not None or facts.integers is not None for facts in outputs):
        return  # a rule of this package has computed elements
    _compute_integers(node, inputs, outputs, opset)
    if not node.input or not outputs or outputs[0].data is not None:
        return
    if any(name and facts.data is None for name, facts in zip(node.input, inputs, strict=True)):
        return  # onnx's evaluator needs all elements of each input
    shapes = [facts.sizes for facts in outputs]
    # An element has at most 16 bytes, as in complex128.
    is_small = all(shape is not None and prod(shape) * 16 <= MAX_BYTES for shape in shapes)
    if not (is_small or node.op_type in _SHRINKING):
        return
    arrays = [facts.data if name else None for name, facts in zip(node.input, inputs, strict=True)]
    if sum(array.nbytes for array in arrays if array is not None) > MAX_BYTES:
        return
    if any(array is not None and array.dtype.names for array in arrays):
        return  # onnx 1.18 stores bfloat16 and similar types as a named field of bits, and computes with the bits
    for facts, array in zip(outputs, evaluate(node, arrays, opset), strict=False):
        if matches_facts(facts, array):
            facts.data, facts.dims = array, array.shape

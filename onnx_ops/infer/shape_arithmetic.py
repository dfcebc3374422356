"""Arithmetic of small integer tensors that a model computes from shapes, with open elements among the known ones.

onnx does not infer elements for single nodes. Arrays contain Python integers, and None for each open element. The
results agree with the ONNX operators. The result of a division by 0 is open, as is each element that onnxruntime
computes differently from the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from onnx_ops.model.views import Array, Dims

Attributes = dict[str, Any]

MAX_ELEMENTS = 1024
"""Tensors with more elements are not computed here."""
_INT32_MAX = 2**31 - 1
_BOOL = 9  # TensorProto.BOOL, without importing onnx
BROADCAST_OPSET = 7
"""The first operator set whose arithmetic broadcasts as NumPy does."""
_NEGATIVE_INDICES_OPSET = 11


def compute_elements(
    op_type: str, inputs: Sequence[Array | None], attributes: Attributes, sizes: Sequence[int], opset: int
) -> Array | None:
    """Compute the elements of a node's only output, None for each element that is not known.

    Args:
        op_type: The standard operator.
        inputs: For each of its inputs, the result of `Facts.list_integers`; None for an input that is left out.
        attributes: Its attributes.
        sizes: The shape of its output.
        opset: The version of its operator set.

    Returns:
        An array of the output's shape; None if the elements cannot be computed or are more than `MAX_ELEMENTS`.
    """
    if prod(sizes) > MAX_ELEMENTS or not inputs or inputs[0] is None:
        return None
    try:
        if op_type in _MOVES:
            elements = _MOVES[op_type](inputs, attributes, tuple(sizes), opset)
        elif op_type in _ELEMENTWISE and opset >= BROADCAST_OPSET:
            if attributes.get("fmod") or any(array is None for array in inputs):  # `_mod` does not support fmod
                return None
            elements = np.asarray(np.frompyfunc(_ELEMENTWISE[op_type], len(inputs), 1)(*inputs), object)
        else:
            return None
    except (ValueError, IndexError, TypeError):  # the shapes do not fit, because the node is invalid
        return None
    return elements if elements is not None and elements.shape == tuple(sizes) else None


def infer_reshape_dims(dims: Dims | None, target: Sequence[int | None], *, allowzero: bool) -> Dims:
    """Return the sizes of the output of a Reshape.

    Args:
        dims: The sizes of its data; None if the rank is unknown.
        target: The elements of its second input, None for each unknown one.
        allowzero: Whether an element of 0 is a size. Otherwise it copies the size of the data on the same axis.

    >>> infer_reshape_dims(("N", 6), [0, -1, 2], allowzero=False)
    ('N', 3, 2)
    >>> infer_reshape_dims((4, 6), [None, 12], allowzero=False)
    (2, 12)
    >>> infer_reshape_dims(("N", 3, 4), [-1, 12], allowzero=False)
    ('N', 12)
    """
    copied_axes = {axis for axis, size in enumerate(target) if size == 0 and not allowzero}
    sizes: list[int | str | None] = [size if size is not None and size >= 0 else None for size in target]
    for axis in copied_axes:
        sizes[axis] = dims[axis] if dims is not None and axis < len(dims) else None
    open_axes = [axis for axis, size in enumerate(sizes) if size is None and axis not in copied_axes]
    if dims is None or len(open_axes) != 1:
        return tuple(sizes)
    (open_axis,) = open_axes
    # If a copied size is 0, the data are empty, and an unknown element of `target` may have any value. This does not
    # hold for an element of -1, which onnxruntime refuses if another size is 0.
    may_be_empty = any(not isinstance(sizes[axis], int) or sizes[axis] == 0 for axis in copied_axes)
    if target[open_axis] is None and may_be_empty:
        return tuple(sizes)
    # Copied sizes occur in the data and in the output, so they cancel out, even if they are symbols.
    data_sizes = [dim for axis, dim in enumerate(dims) if axis not in copied_axes]
    open_data_sizes = [size for size in data_sizes if not isinstance(size, int)]
    data_product = prod(size for size in data_sizes if isinstance(size, int))
    # All sizes of the output that are not copied are known, except the one on `open_axis`.
    other_sizes = [size for axis, size in enumerate(sizes) if axis not in copied_axes]
    other_product = prod(size for size in other_sizes if isinstance(size, int))
    if not open_data_sizes and other_product and data_product % other_product == 0:
        sizes[open_axis] = data_product // other_product
    elif len(open_data_sizes) == 1 and data_product == other_product != 0:
        # All known sizes cancel out, so the open size of the data remains.
        sizes[open_axis] = open_data_sizes[0]
    return tuple(sizes)


def infer_expand_dims(dims: Dims, target: Sequence[int | None]) -> Dims:
    """Return the sizes of the output of an Expand.

    Args:
        dims: The sizes of its data.
        target: The elements of its second input, None for each unknown one.

    >>> infer_expand_dims((3, 1), [2, None, 4])
    (2, 3, 4)
    """
    rank = max(len(dims), len(target))
    data_sizes = (1,) * (rank - len(dims)) + tuple(dims)
    target_sizes = (1,) * (rank - len(target)) + tuple(target)
    return tuple([_broadcast(dim, size) for dim, size in zip(data_sizes, target_sizes, strict=True)])


def _broadcast(dim: int | str | None, size: int | None) -> int | str | None:
    """Return the broadcast of `dim` of the data and `size` of the target. An open result is a symbol or None."""
    if size == 1:
        return dim
    if isinstance(dim, int) and dim != 1:
        return dim
    # Here the data have one element on this axis, or as many as the target. A negative size is not valid in ONNX.
    return size if size is not None and size >= 0 else None


def _none_if_any_open(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, changed to return None if an argument is None."""
    return lambda *values: None if any(value is None for value in values) else function(*values)


def _none_beyond_int32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, changed to return None if an argument is None or its magnitude exceeds `_INT32_MAX`.

    onnxruntime's Min and Max compare integers beyond 32 bits wrongly.
    """
    return _none_if_any_open(lambda *values: None if max(map(abs, values)) > _INT32_MAX else function(*values))


def divide(a: int, b: int) -> int | None:
    """Divide integers as ONNX does, rounding toward zero. Return None for a division by 0."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _mod(a: int | None, b: int | None) -> int | None:
    # Without fmod, the remainder has the sign of the divisor, as in Python. It is open if b is 0, or if a or b is open.
    return None if a is None or not b else a % b


def _multiply(a: int | None, b: int | None) -> int | None:
    # 0 times an open element is 0.
    if a == 0 or b == 0:
        return 0
    return None if a is None or b is None else a * b


def _where(condition: bool | None, if_true: Any, if_false: Any) -> Any:
    if condition is None:
        return if_true if if_true == if_false else None
    return if_true if condition else if_false


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Add": _none_if_any_open(lambda a, b: a + b),
    "Sub": _none_if_any_open(lambda a, b: a - b),
    "Mul": _multiply,
    "Div": _none_if_any_open(divide),
    "Mod": _mod,
    "Min": _none_beyond_int32(min),
    "Max": _none_beyond_int32(max),
    "Neg": _none_if_any_open(lambda a: -a),
    "Abs": _none_if_any_open(abs),
    "Equal": _none_if_any_open(lambda a, b: int(a == b)),
    "Less": _none_if_any_open(lambda a, b: int(a < b)),
    "LessOrEqual": _none_if_any_open(lambda a, b: int(a <= b)),
    "Greater": _none_if_any_open(lambda a, b: int(a > b)),
    "GreaterOrEqual": _none_if_any_open(lambda a, b: int(a >= b)),
    "And": _none_if_any_open(lambda a, b: int(bool(a) and bool(b))),
    "Or": _none_if_any_open(lambda a, b: int(bool(a) or bool(b))),
    "Not": _none_if_any_open(lambda a: int(not a)),
    "Where": _where,
}

_Move = Callable[[Sequence[Any], Attributes, tuple[int, ...], int], Array | None]
"""A function of the inputs, the attributes, the shape of the output and the version of the operator set.

The first input is known. The result is None if the output is not known.
"""


def _gather(inputs: Sequence[Any], attributes: Attributes, _: tuple[int, ...], opset: int) -> Array | None:
    data, indices = inputs
    if indices is None or not data.ndim or None in indices.reshape(-1).tolist():  # an open element is None
        return None
    # Before operator set 11, the specification defines no negative indices.
    if opset < _NEGATIVE_INDICES_OPSET and any(index < 0 for index in indices.flat):
        return None
    return np.asarray(np.take(data, indices.astype(np.int64), axis=attributes.get("axis", 0)))


def _cast(inputs: Sequence[Any], attributes: Attributes, _: tuple[int, ...], __: int) -> Array:
    if attributes.get("to") != _BOOL:
        return np.asarray(inputs[0])  # `Facts.set_integers` marks elements that do not fit the type as unknown
    to_bool = np.frompyfunc(_none_if_any_open(lambda a: int(a != 0)), 1, 1)
    return np.asarray(to_bool(inputs[0]), object)


def _concat(inputs: Sequence[Any], attributes: Attributes, _: tuple[int, ...], __: int) -> Array | None:
    if any(array is None for array in inputs):
        return None
    return np.asarray(np.concatenate(inputs, axis=attributes.get("axis", 1)))  # Concat-1 may omit the axis


_MOVES: dict[str, _Move] = {
    "Gather": _gather,
    "Concat": _concat,
    "Cast": _cast,
    "Transpose": lambda inputs, attributes, *_: np.transpose(inputs[0], attributes.get("perm")),
    "Expand": lambda inputs, _, sizes, __: np.broadcast_to(inputs[0], sizes),
    **dict.fromkeys(
        ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"),
        lambda inputs, _, sizes, __: np.reshape(inputs[0], sizes),
    ),
}

"""OpenVINO models of one slicing operator, ours or the built-in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1, opset8

import ov_ext

MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
Sizes = Sequence[int | Sequence[int]] | None


def partial_shape(sizes: Sizes) -> ov.PartialShape:
    """A shape of sizes or `[least, greatest]`, -1 for unbounded; None for any rank."""
    if sizes is None:
        return ov.PartialShape.dynamic()
    return ov.PartialShape([ov.Dimension(s) if isinstance(s, int) else ov.Dimension(*s) for s in sizes])


def listed(shape: ov.PartialShape) -> list[Any] | None:
    """The other way round."""
    if shape.rank.is_dynamic:
        return None
    return [d.get_length() if d.is_static else [d.get_min_length(), d.get_max_length()] for d in shape]


def parameter(sizes: Sizes, element: ov.Type | str = "f32") -> ov.Node:
    return ov.op.Parameter(getattr(ov.Type, element) if isinstance(element, str) else element, partial_shape(sizes))


def constant(values: Sequence[int], element: str = "i64") -> ov.Node:
    return fixed(np.array(values, np.int64).astype(getattr(ov.Type, element).to_dtype()))


def fixed(array: np.ndarray) -> ov.Node:
    """A constant of an array, which may be empty."""
    return opset8.constant(array) if array.size else ov.op.Constant(ov.Type(array.dtype), ov.Shape(array.shape), [])


def make(
    op: str, inputs: Sequence[ov.Node], masks: Mapping[str, Sequence[int]] | None = None, *, ours: bool = True
) -> ov.Node:
    """The operator; the built-in one wants masks of one length."""
    lists = {name: list(mask) for name, mask in (masks or {}).items()}
    if ours:
        return ov_ext.Slice(inputs) if op == "Slice" else ov_ext.StridedSlice(inputs, **lists)
    if op == "Slice":
        return opset8.slice(*inputs)
    if len(inputs) == len(("data", "begin", "end")):
        count = inputs[1].get_output_partial_shape(0)[0].get_length()
        inputs = [*inputs, constant([1] * count)]
    length = max(map(len, lists.values()), default=0)
    padded = [lists.get(name, []) + [0] * (length - len(lists.get(name, []))) for name in MASKS]
    return opset1.strided_slice(*inputs, *padded)


def model(node: ov.Node, *parameters: ov.Node) -> ov.Model:
    return ov.Model([node], list(parameters), "model")


def pack(values: np.ndarray, name: str) -> np.ndarray:
    """The bytes of elements of less than a byte: the first in the lowest bits, but for u1, where it is the highest."""
    if name == "u1":
        return np.packbits(values)
    bits = 2 if name == "u2" else 4
    flat = np.zeros(-(-values.size * bits // 8), np.uint8)
    for i, value in enumerate(values.tolist()):
        flat[i * bits // 8] |= value << (i * bits % 8)
    return flat


def unpack(data: np.ndarray, name: str) -> np.ndarray:
    if name == "u1":
        return np.unpackbits(data)
    bits = 2 if name == "u2" else 4
    return np.array([data[i * bits // 8] >> (i * bits % 8) & (2**bits - 1) for i in range(data.size * 8 // bits)])

"""OpenVINO models of one slicing operator, ours or the built-in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1, opset8

import ov_ext

MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
Sizes = Sequence[int | Sequence[int]] | None


def partial_shape(sizes: Sizes) -> ov.PartialShape:
    """Return a shape of sizes or `[least, greatest]`, -1 for unbounded; None for any rank."""
    if sizes is None:
        return ov.PartialShape.dynamic()
    return ov.PartialShape([ov.Dimension(s) if isinstance(s, int) else ov.Dimension(*s) for s in sizes])


def listed(shape: ov.PartialShape) -> list[Any] | None:
    """Return the sizes of a shape, as `partial_shape` takes them."""
    if shape.rank.is_dynamic:
        return None
    return [d.get_length() if d.is_static else [d.get_min_length(), d.get_max_length()] for d in shape]


def kinds(model: ov.Model) -> list[str]:
    return [node.get_type_name() for node in model.get_ordered_ops()]


def pick(random: np.random.Generator, *options: Any) -> Any:
    return options[int(random.integers(len(options)))]


def parameter(sizes: Sizes, element: ov.Type | str = "f32") -> ov.Node:
    return ov.op.Parameter(getattr(ov.Type, element) if isinstance(element, str) else element, partial_shape(sizes))


def constant(values: Sequence[int], element: str = "i64") -> ov.Node:
    return fixed(np.array(values, np.int64).astype(getattr(ov.Type, element).to_dtype()))


def fixed(array: np.ndarray) -> ov.Node:
    """Return a constant of an array, which may be empty."""
    return opset8.constant(array) if array.size else ov.op.Constant(ov.Type(array.dtype), ov.Shape(array.shape), [])


def make(
    op: str, inputs: Sequence[ov.Node], masks: Mapping[str, Sequence[int]] | None = None, *, ours: bool = True
) -> ov.Node:
    """Return the operator; the built-in one needs masks of one length."""
    lists = {name: list(mask) for name, mask in (masks or {}).items()}
    if ours:
        return ov_ext.Slice(inputs) if op == "Slice" else ov_ext.StridedSlice(inputs, **lists)
    if op == "Slice":
        return opset8.slice(*inputs)
    if op == "VariadicSplit":
        return opset1.variadic_split(*inputs)
    if op == "TensorIterator":  # A further input takes the place of each part.
        start, stride, part_size, end, axis = (int(node.data[0]) for node in inputs[1:6])
        return iterate(inputs[0], start, stride, part_size, end, axis, lambda part: [part, *inputs[6:]][-1])
    if len(inputs) == len(("data", "begin", "end")):
        count = inputs[1].get_output_partial_shape(0)[0].get_length()
        inputs = [*inputs, constant([1] * count)]
    length = max(map(len, lists.values()), default=0)
    padded = [lists.get(name, []) + [0] * (length - len(lists.get(name, []))) for name in MASKS]
    return opset1.strided_slice(*inputs, *padded)


def iterate(
    data: ov.Node,
    start: int,
    stride: int,
    part_size: int,
    end: int,
    axis: int,
    change: Callable[[ov.Node], ov.Node] = lambda part: part,
) -> ov.Node:
    """Return a TensorIterator that joins the parts of the data, each changed, or else as it is."""
    shape = data.get_output_partial_shape(0)
    if shape.rank.is_static:
        shape[axis] = part_size
    part = ov.op.Parameter(data.get_output_element_type(0), shape)
    node = opset8.tensor_iterator()
    node.set_body(ov.Model([opset8.result(change(part))], [part], "body"))
    node.set_sliced_input(part, data.output(0), start, stride, part_size, end, axis)
    node.get_concatenated_slices(node.get_function().get_results()[0].output(0), 0, part_size, part_size, -1, axis)
    return node


def one_slice(
    op: str,
    sizes: Sizes,
    lists: Sequence[Sequence[int]],
    masks: Mapping[str, Sequence[int]] | None = None,
    *,
    ours: bool = False,
    element: ov.Type | str = "f32",
    name: str = "cut",
) -> ov.Model:
    """Return a model of one operator with constant indices."""
    source = parameter(sizes, element)
    node = make(op, [source, *map(constant, lists)], masks, ours=ours)
    node.set_friendly_name(name)
    return ov.Model(node.outputs(), [source], "m")


def if_model(sizes: Sizes, make_branch: Callable[[ov.Node, int], ov.Node]) -> ov.Model:
    """Return a model with an If whose branches are `make_branch(input, 0)` and `make_branch(input, 1)`."""
    condition, x = parameter([], "boolean"), parameter(sizes)
    bodies = []
    for i in range(2):
        inner = parameter(sizes)
        bodies.append(ov.Model([make_branch(inner, i)], [inner], "body"))
    node = opset8.if_op(condition)
    node.set_friendly_name("choice")
    node.set_then_body(bodies[0])
    node.set_else_body(bodies[1])
    node.set_input(x.output(0), *(body.get_parameters()[0] for body in bodies))
    result = node.set_output(*(body.get_results()[0] for body in bodies))
    return ov.Model([result], [condition, x], "m")


def pack(values: np.ndarray, name: str) -> np.ndarray:
    """Pack elements of less than a byte: the first into the lowest bits, or into the highest bit for u1."""
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

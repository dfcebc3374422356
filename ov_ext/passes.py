"""Swapping the built-in slicing operators of a model for ours, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import openvino as ov
from openvino import opset1, opset8

from ov_ext.slice import Slice
from ov_ext.strided_slice import MASKS, StridedSlice

Maker = Callable[[ov.Node], ov.Node]


def use_custom_ops(model: ov.Model) -> int:
    """Put our operators in the place of the built-in Slice and StridedSlice, in bodies of If, Loop and the like too.

    Names, friendly names, `rt_info` and tensor names stay.

    Args:
        model: The model; it is changed.

    Returns:
        How many were replaced.
    """
    return _replace(model, {("Slice", "opset8"): _custom_slice, ("StridedSlice", "opset1"): _custom_strided_slice})


def use_builtin_ops(model: ov.Model) -> int:
    """The way back: put the built-in operators in the place of ours.

    Args:
        model: The model; it is changed.

    Returns:
        How many were replaced.
    """
    ours = {("Slice8", "ov_ext"): _builtin_slice, ("StridedSlice1", "ov_ext"): _builtin_strided_slice}
    return _replace(model, ours)


def _replace(model: ov.Model, makers: Mapping[tuple[str, str], Maker]) -> int:
    count = 0
    for node in model.get_ordered_ops():
        for body in _bodies(node):
            count += _replace(body, makers)
        info = node.get_type_info()
        make = makers.get((info.name, info.version_id))
        if make is None:
            continue
        new = make(node)
        _keep_names(node, new)
        ov.utils.replace_node(node, new)
        count += 1
    if count:
        model.validate_nodes_and_infer_types()
    return count


def _bodies(node: ov.Node) -> list[ov.Model]:
    kind = node.get_type_name()
    if kind == "If":
        return [node.get_function(0), node.get_function(1)]
    return [node.get_function()] if kind in ("Loop", "TensorIterator") else []


def _keep_names(old: ov.Node, new: ov.Node) -> None:
    new.set_friendly_name(old.get_friendly_name())
    new.output(0).get_tensor().set_names(old.output(0).get_tensor().get_names())
    info = new.get_rt_info()
    for key, value in old.get_rt_info().items():
        info[key] = value


def _inputs(node: ov.Node) -> list[ov.Output]:
    return [node.input_value(i) for i in range(node.get_input_size())]


def _custom_slice(node: ov.Node) -> ov.Node:
    return Slice(_inputs(node))


def _custom_strided_slice(node: ov.Node) -> ov.Node:
    attributes = node.get_attributes()
    return StridedSlice(_inputs(node), **{name: attributes.get(name) or () for name in MASKS})


def _builtin_slice(node: ov.Node) -> ov.Node:
    return opset8.slice(*_inputs(node))


def _builtin_strided_slice(node: ov.Node) -> ov.Node:
    inputs = _inputs(node)
    masks = {name: list(node.get_attributes()[name]) for name in MASKS}
    if len(inputs) == 3:
        ones = opset8.broadcast(opset8.constant(np.int64(1)), opset8.shape_of(inputs[1]))
        inputs.append(opset8.convert_like(ones, inputs[1]).output(0))
    length = max(map(len, masks.values()))  # the built-in operator wants them all as long
    padded = [mask + [0] * (length - len(mask)) for mask in masks.values()]
    return opset1.strided_slice(*inputs, *padded)

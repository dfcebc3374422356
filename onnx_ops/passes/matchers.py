"""Reading the parameters of nodes, as far as they are constant and valid."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_ops.model.cached_read import cached_read
from onnx_ops.model.nodes import (
    MAX_AXES,
    constant,
    contested,
    is_operator,
    known_split,
    node_name,
    read_elements,
    read_int,
    read_ints,
    slice_spec,
)
from onnx_ops.model.views import Array
from onnx_ops.passes.builders import AXES_INPUT_OPSET
from onnx_ops.passes.outcome import Skip
from onnx_ops.passes.value_info import Sizes
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing import AxisSlice, SliceSpec, SplitSpec, progression
from sliceport.slicing.spec import normalize_axis

_MAX_INDICES = 2**20
_NEGATIVE_INDICES_OPSET = 11
_SHAPE_INPUT = 1


def read_slice(node: ir.Node, opset: int, shape: Sizes | None) -> dict[int, AxisSlice]:
    """Return the start, end and step of each axis that a Slice names.

    Args:
        node: The Slice.
        opset: Version of its operator set.
        shape: Its input's shape, as far as it is known: with its rank, negative axes are counted from the front.

    Raises:
        Skip: They are not constant or not valid, or engines disagree about the node.
    """
    try:
        spec = slice_spec(node, opset)
    except (InvalidSlice, DynamicSlice) as reason:
        _check_uncontested(node, opset, shape)
        raise Skip(str(reason)) from None
    _check_uncontested(node, opset, shape, spec)
    return _by_axis(spec, shape)


def _by_axis(spec: SliceSpec, shape: Sizes | None) -> dict[int, AxisSlice]:
    try:
        return spec.by_axis(None if shape is None else len(shape))
    except (InvalidSlice, DynamicSlice) as reason:
        raise Skip(str(reason)) from None


def _check_uncontested(node: ir.Node, opset: int, shape: Sizes | None, spec: SliceSpec | None = None) -> None:
    disagreement = contested(node, opset, shape, spec)
    if disagreement is not None:
        raise Skip(disagreement.reason)


def read_attribute(node: ir.Node, name: str, default: int) -> int:
    """Return the integer of a node's attribute.

    Raises:
        Skip: Each call of the function that the node is in sets it, or it is not an integer.
    """
    try:
        return read_int(node, name, default)
    except (InvalidSlice, DynamicSlice) as reason:
        raise Skip(str(reason)) from None


def read_attribute_list(node: ir.Node, name: str) -> tuple[int, ...] | None:
    """Return the integers of a node's attribute; None where it is absent.

    Raises:
        Skip: See `read_attribute`.
    """
    try:
        return read_ints(node, name)
    except (InvalidSlice, DynamicSlice) as reason:
        raise Skip(str(reason)) from None


def read_split(node: ir.Node, opset: int, shape: Sizes | None) -> SplitSpec:
    """Return the parts of a Split, its axis counted from the front where the rank is known.

    Raises:
        Skip: They are not known, not valid, or do not add up to the size of the axis, if that is known; or engines
            disagree about the node.
    """
    _check_uncontested(node, opset, shape)
    try:
        return known_split(node, opset, shape)
    except (InvalidSlice, DynamicSlice) as reason:
        raise Skip(str(reason)) from None


def read_exact_split(node: ir.Node, opset: int, shape: Sizes | None) -> SplitSpec:
    """Return the parts of a Split that add up to the size of its axis.

    Raises:
        Skip: See `read_split`; or the size is not known.
    """
    parts = read_split(node, opset, shape)
    if shape is not None and not -len(shape) <= parts.axis < len(shape):
        raise Skip(f"axis {parts.axis} is out of range for a tensor of rank {len(shape)}")
    if shape is None or shape[parts.axis] is None:
        raise Skip(
            f"the size of axis {parts.axis} of {_data(node)} is not known, and only a Split checks that its parts add "
            "up to it"
        )
    return parts


def read_gather(node: ir.Node, opset: int, shape: Sizes | None) -> tuple[int, range, bool]:
    """Return the axis of a Gather, its constant indices, and whether they are a scalar, which drops the axis.

    Raises:
        Skip: The indices are not constant, not an arithmetic progression or out of range; or the size of the axis is
            not known, so that the Gather may fail where a Slice selects fewer elements.
    """
    if len(node.inputs) != 2 or node.inputs[0] is None or node.inputs[1] is None:
        raise Skip("it does not have two inputs")
    tensor = constant(node.inputs[1])
    if tensor is None:
        raise Skip("its indices are not a constant")
    if len(tensor.shape) > 1 or tensor.size > _MAX_INDICES:
        raise Skip("its indices are not a list, or too many")
    if shape is None:
        raise Skip(f"the rank of {_data(node)} is not known")
    try:
        axis = normalize_axis(read_attribute(node, "axis", 0), len(shape))
    except InvalidSlice as reason:
        raise Skip(str(reason)) from None
    size = shape[axis]
    if size is None:
        raise Skip(
            f"the size of axis {axis} of {_data(node)} is not known, and a Slice does not fail at an index out of range"
        )
    try:
        kept, least = cached_read(tensor, ("indices", size), lambda: _read_indices(tensor, size))
    except Exception as error:  # stored outside the model
        raise Skip(f"its indices cannot be read ({error})") from None
    if kept is None or (opset < _NEGATIVE_INDICES_OPSET and least < 0):
        raise Skip(f"its indices are out of range for axis {axis} of size {size}, or not an arithmetic progression")
    return axis, kept, len(tensor.shape) == 0


def _read_indices(tensor: ir.TensorProtocol, size: int) -> tuple[range | None, int]:
    """Return the indices of an axis of `size` as a range, or None, and the smallest index as it is written."""
    listed = [int(index) for index in tensor.numpy().reshape(-1)]
    return progression(listed, size), min(listed, default=0)


def _data(node: ir.Node) -> str:
    """Return the name of what a node reads first, for a reason."""
    data = node.inputs[0] if node.inputs else None
    return "its data" if data is None else repr(data.name)


def read_view_axes(node: ir.Node, opset: int) -> list[int]:
    """Return the axes that a Squeeze or Unsqueeze names, negative ones as they are.

    Raises:
        Skip: They are absent or not constant.
    """
    if opset < AXES_INPUT_OPSET:
        axes = read_attribute_list(node, "axes")
        if axes is None:
            raise Skip(f"{node.op_type} {node_name(node)!r} does not name its axes")
        return list(axes)
    value = node.inputs[1] if len(node.inputs) > 1 else None
    listed = None if value is None else read_elements(value, MAX_AXES)
    if listed is None:
        raise Skip(f"the axes of {node.op_type} {node_name(node)!r} are not constant")
    return [int(axis) for axis in listed.reshape(-1)]


def is_forbidden_shape(value: ir.Value, read: Callable[[], Array]) -> bool:
    """Return whether a Reshape with allowzero=1 reads a value that has a 0 and a -1, which the specification forbids.

    onnxruntime does not load a model in which such a shape is a constant, and runs it if the shape is computed.

    Args:
        value: The value.
        read: Returns the elements of the value. It is called only if such a Reshape reads the value.
    """
    attributes = [
        use.node.attributes.get("allowzero")
        for use in value.uses()
        if use.idx == _SHAPE_INPUT and is_operator(use.node, "Reshape")
    ]
    if not any(each is not None and (each.is_ref() or each.value) for each in attributes):
        return False
    elements = read()
    return bool((elements == 0).any() and (elements == -1).any())

"""What passes read of nodes: what is written in them, as far as it is constant and right."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import (
    MAX_AXES,
    constant,
    contested,
    is_operator,
    read_elements,
    read_int,
    read_ints,
    slice_spec,
    split_spec,
)
from onnx_ops.passes.base import NotApplied
from onnx_ops.passes.builders import AXES_INPUT_OPSET, SPLIT_INPUT_OPSET
from onnx_ops.passes.value_info import Sizes
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing import AxisSlice, SplitSpec, progression
from sliceport.slicing.spec import normalize_axis

_MOST_INDICES = 2**20
_NEGATIVE_INDICES_OPSET = 11


def written_slice(node: ir.Node, opset: int, shape: Sizes | None) -> dict[int, AxisSlice]:
    """What a Slice does to each axis that it names.

    Args:
        node: The Slice.
        opset: Version of its operator set.
        shape: What is known of its input's shape: with its rank, negative axes are counted from the front.

    Raises:
        NotApplied: That is no constant, or wrong, or engines disagree about it.
    """
    _check_undisputed(node, opset, shape)
    return spelled_slice(node, opset, shape)


def spelled_slice(node: ir.Node, opset: int, shape: Sizes | None) -> dict[int, AxisSlice]:
    """What a Slice does to each axis by the specification, whatever engines make of it.

    Raises:
        NotApplied: That is no constant, or wrong.
    """
    try:
        return slice_spec(node, opset).by_axis(None if shape is None else len(shape))
    except (InvalidSlice, DynamicSlice) as reason:
        raise NotApplied(str(reason)) from None


def _check_undisputed(node: ir.Node, opset: int, shape: Sizes | None) -> None:
    disagreement = contested(node, opset, shape)
    if disagreement is not None:
        raise NotApplied(disagreement.reason)


def attribute(node: ir.Node, name: str, default: int) -> int:
    """The integer of a node's attribute.

    Raises:
        NotApplied: Each call of the function that the node is in sets it for itself, or it is of another type.
    """
    try:
        return read_int(node, name, default)
    except (InvalidSlice, DynamicSlice) as reason:
        raise NotApplied(str(reason)) from None


def attribute_list(node: ir.Node, name: str) -> tuple[int, ...] | None:
    """The integers of a node's attribute; None where it is left out.

    Raises:
        NotApplied: See `attribute`.
    """
    try:
        return read_ints(node, name)
    except (InvalidSlice, DynamicSlice) as reason:
        raise NotApplied(str(reason)) from None


def split_parts(node: ir.Node, opset: int, shape: Sizes | None) -> SplitSpec:
    """The parts of a Split, its axis from the front where the rank is known.

    Raises:
        NotApplied: They are not known, wrong, or do not fill the axis, as far as its size is known; or engines disagree
            about them.
    """
    _check_undisputed(node, opset, shape)
    axis = attribute(node, "axis", 0)
    in_range = shape is not None and -len(shape) <= axis < len(shape)
    size = shape[axis] if shape is not None and in_range else None
    is_written = "split" in node.attributes or (opset >= SPLIT_INPUT_OPSET and len(node.inputs) > 1)
    if not is_written and size is None:
        raise NotApplied("the size of the axis that it splits evenly is not known")
    known = tuple([dim or 0 for dim in shape]) if shape is not None else (0,)
    try:
        spec = split_spec(node, opset, known)
    except (InvalidSlice, DynamicSlice) as reason:
        raise NotApplied(str(reason)) from None
    if size is not None and sum(spec.sizes) != size:
        raise NotApplied(f"its parts have {sum(spec.sizes)} elements, but the axis has {size}")
    return SplitSpec(axis % len(shape), spec.sizes) if shape is not None and in_range else spec


def filled_parts(node: ir.Node, opset: int, shape: Sizes | None) -> SplitSpec:
    """The parts of a Split of an axis whose size is known, so that they surely fill it.

    Raises:
        NotApplied: See `split_parts`, or the size is not known.
    """
    parts = split_parts(node, opset, shape)
    if shape is not None and not -len(shape) <= parts.axis < len(shape):
        raise NotApplied(f"axis {parts.axis} is out of range for a tensor of rank {len(shape)}")
    if shape is None or shape[parts.axis] is None:
        raise NotApplied(
            "the size of the axis is not known, and nothing else would fail where the parts do not fill it"
        )
    return parts


def gathered(node: ir.Node, opset: int, shape: Sizes | None) -> tuple[int, range, bool]:
    """What a Gather by constant indices takes: the axis, the indices, and whether a single one drops the axis.

    Raises:
        NotApplied: The indices are no constant, no arithmetic progression or out of range, or the size of the axis is
            not known: a Gather then fails where a Slice would give less.
    """
    if len(node.inputs) != 2 or node.inputs[0] is None or node.inputs[1] is None:
        raise NotApplied("it does not have two inputs")
    tensor = constant(node.inputs[1])
    if tensor is None:
        raise NotApplied("its indices are not a constant")
    if len(tensor.shape) > 1 or tensor.size > _MOST_INDICES:
        raise NotApplied("its indices are no list")
    if shape is None:
        raise NotApplied("the shape of its data is not known")
    try:
        axis = normalize_axis(attribute(node, "axis", 0), len(shape))
    except InvalidSlice as reason:
        raise NotApplied(str(reason)) from None
    size = shape[axis]
    if size is None:
        raise NotApplied(f"the size of axis {axis} is not known, and a Slice would not fail where an index is beyond")
    try:
        listed = [int(index) for index in tensor.numpy().reshape(-1)]
    except Exception as error:  # stored outside the model
        raise NotApplied(f"its indices cannot be read ({error})") from None
    kept = progression(listed, size)
    if kept is None or (opset < _NEGATIVE_INDICES_OPSET and min(listed, default=0) < 0):
        raise NotApplied(f"its indices are out of range for {size} elements, or no arithmetic progression")
    return axis, kept, len(tensor.shape) == 0


def view_axes(node: ir.Node, opset: int) -> list[int]:
    """The axes that a Squeeze or Unsqueeze names, as they are written.

    Raises:
        NotApplied: They are no constant, or left out.
    """
    if opset < AXES_INPUT_OPSET:
        axes = attribute_list(node, "axes")
        if axes is None:
            raise NotApplied(f"{node.op_type} {node.name!r} does not name its axes")
        return list(axes)
    value = node.inputs[1] if len(node.inputs) > 1 else None
    listed = None if value is None else read_elements(value, MAX_AXES)
    if listed is None:
        raise NotApplied(f"the axes of {node.op_type} {node.name!r} are not constant")
    return [int(axis) for axis in listed.reshape(-1)]


def source_of(value: ir.Value | None) -> ir.Value | None:
    """The value behind Identity nodes."""
    while value is not None:
        producer = value.producer()
        if producer is None or not is_operator(producer, "Identity"):
            return value
        value = producer.inputs[0]
    return None

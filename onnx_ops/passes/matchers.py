"""Reading the parameters of nodes, as far as they are constant and valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnx_ops.defects.contested import find_disagreement
from onnx_ops.model.cached_read import cached_read
from onnx_ops.model.nodes import MAX_AXES, constant, is_valid_operator, node_name, read_elements, read_int, read_ints
from onnx_ops.model.specs import slice_spec, split_spec_with_open_sizes
from onnx_ops.model.views import Array, Sizes
from onnx_ops.passes.builders import AXES_INPUT_OPSET
from onnx_ops.passes.outcome import Skip
from sliceport.slicing import AxisSlice, SplitSpec, as_range, resolve_axis
from sliceport.slicing.spec import normalize_axis

_MAX_INDICES = 2**20
"""Limit for the indices of a Gather that are read."""
_NEGATIVE_INDICES_OPSET = 11
"""The first operator set that defines negative indices of a Gather."""
SHAPE_INPUT = 1
"""Index of the shape among the inputs of a Reshape."""
NEUTRAL = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}
"""For each operator, the constant that does not change the other operand."""


def data_of(node: ir.Node) -> ir.Value:
    """Return the first input of a node. `nodes.has_valid_arity` must be true for the node, so that the input exists."""
    data = node.inputs[0]
    assert data is not None
    return data


def read_slice(node: ir.Node, opset: int, shape: Sizes | None) -> dict[int, AxisSlice]:
    """Return the start, end and step of each axis that a Slice names.

    Args:
        node: The Slice.
        opset: Version of its operator set.
        shape: The size of each axis of the data, None for an unknown size. None if the rank is unknown.

    Raises:
        Skip: Engines read the node differently.
        InvalidSlice, DynamicSlice: A parameter is not valid or not constant; or an axis is negative and the rank open.
    """
    _check_uncontested(node, opset, shape)
    return read_slice_by_spec(node, opset, shape)


def read_slice_by_spec(node: ir.Node, opset: int, shape: Sizes | None) -> dict[int, AxisSlice]:
    """Return the start, end and step of each axis that a Slice names, by the specification.

    Unlike `read_slice`, this function accepts a Slice that engines read differently.

    Raises:
        InvalidSlice, DynamicSlice: See `read_slice`.
    """
    return slice_spec(node, opset).by_axis(None if shape is None else len(shape))


def drop_whole_axes(entries: Mapping[int, AxisSlice], shape: Sizes | None) -> dict[int, AxisSlice]:
    """Return the bounds by axis, without those that surely select a whole axis. `shape` holds the sizes of the data."""
    sizes = dict(enumerate(shape or ()))
    return {axis: entry for axis, entry in entries.items() if not entry.is_whole(sizes.get(axis))}


def sizes_after(entries: Mapping[int, AxisSlice], sizes: Sizes) -> Sizes:
    """Return the sizes of a tensor after a Slice. `entries` holds the bounds by axis. An open size (None) stays."""
    pairs = [(size, entries.get(axis)) for axis, size in enumerate(sizes)]
    return tuple([size if size is None or entry is None else len(resolve_axis(*entry, size)) for size, entry in pairs])


def _check_uncontested(node: ir.Node, opset: int, shape: Sizes | None) -> None:
    """Raise Skip if engines read a Slice or Split differently."""
    disagreement = find_disagreement(node, opset, shape)
    if disagreement is not None:
        raise Skip(disagreement.reason)


def read_split(node: ir.Node, opset: int, shape: Sizes | None) -> SplitSpec:
    """Return the axis and the part sizes of a Split.

    The axis stays negative only if the rank is open or the axis is out of range.

    Raises:
        Skip: Engines read the node differently.
        InvalidSlice, DynamicSlice: See `split_spec_with_open_sizes`.
    """
    _check_uncontested(node, opset, shape)
    return split_spec_with_open_sizes(node, opset, shape)


def read_exact_split(node: ir.Node, opset: int, shape: Sizes | None) -> SplitSpec:
    """Return the axis and the part sizes of a Split if the size of the axis is known.

    Raises:
        Skip, InvalidSlice, DynamicSlice: See `read_split`; or the axis is out of range, or its size is not known.
    """
    spec = read_split(node, opset, shape)
    if shape is not None and not -len(shape) <= spec.axis < len(shape):
        raise Skip(f"axis {spec.axis} is out of range for a tensor of rank {len(shape)}")
    if shape is None or shape[spec.axis] is None:
        size = f"the size of axis {spec.axis} of {data_of(node).name!r}"
        raise Skip(f"{size} is not known, so a replacement would lose the Split's check that its parts add up to it")
    return spec


def read_gather(node: ir.Node, opset: int, shape: Sizes | None) -> tuple[int, range, bool]:
    """Return the axis of a Gather, the indices that it selects, and whether a scalar index makes it drop the axis.

    Raises:
        Skip: The size of the axis is not known; or the indices are not a constant list or scalar, cannot be read, are
            too many or out of range (before opset 11 also if negative), or are not an arithmetic progression.
        InvalidSlice, DynamicSlice: The attribute `axis` is not valid, or stands for an attribute of the function.
    """
    tensor = None if node.inputs[1] is None else constant(node.inputs[1])
    if tensor is None:
        raise Skip("its indices are not a constant")
    if len(tensor.shape) > 1 or tensor.size > _MAX_INDICES:
        raise Skip("its indices are not a list, or too many")
    if shape is None:
        raise Skip(f"the rank of {data_of(node).name!r} is not known")
    axis = normalize_axis(read_int(node, "axis", 0), len(shape))
    size = shape[axis]
    if size is None:
        message = f"the size of axis {axis} of {data_of(node).name!r} is not known"
        raise Skip(f"{message}, and unlike a Gather, a Slice does not fail at an index out of range")
    try:
        selected, smallest = cached_read(tensor, ("indices", size), lambda: _read_indices(tensor, size))
    except Exception as error:  # the file of external data may be missing or damaged
        raise Skip(f"its indices cannot be read ({error})") from None
    if selected is None or (opset < _NEGATIVE_INDICES_OPSET and smallest < 0):
        raise Skip(f"its indices are out of range for axis {axis} of size {size}, or not an arithmetic progression")
    return axis, selected, len(tensor.shape) == 0


def _read_indices(tensor: ir.TensorProtocol, size: int) -> tuple[range | None, int]:
    """Return the indices in `tensor` for an axis of `size` as a range, and the smallest one, which may be negative.

    The range is None if an index is out of range or the indices are not an arithmetic progression.
    """
    listed = [int(index) for index in tensor.numpy().reshape(-1)]
    return as_range(listed, size), min(listed, default=0)


def read_axes(node: ir.Node, opset: int) -> list[int]:
    """Return the axes that a Squeeze or Unsqueeze lists, which may be negative.

    Raises:
        Skip: The axes are absent; or, from operator set 13 on, not constant, not readable, or more than `MAX_AXES`.
        InvalidSlice, DynamicSlice: See `read_ints`, which reads the axes before operator set 13.
    """
    axes = read_ints(node, "axes") if opset < AXES_INPUT_OPSET else None
    if axes is not None:
        return list(axes)
    value = node.inputs[1] if opset >= AXES_INPUT_OPSET and len(node.inputs) > 1 else None
    if value is None:
        raise Skip(f"{node.op_type} {node_name(node)!r} does not name its axes")
    elements = read_elements(value, MAX_AXES)
    if elements is None:
        raise Skip(f"the axes of {node.op_type} {node_name(node)!r} are not constant, not readable, or too many")
    return [int(axis) for axis in elements.reshape(-1)]


def is_forbidden_shape(value: ir.Value, read: Callable[[], Array]) -> bool:
    """Return whether a value contains a 0 and a -1, and is the shape of a Reshape with allowzero=1.

    The specification forbids such a shape. onnxruntime does not load a model in which it is a constant, but runs a
    model in which it is computed. `read` returns the elements, and is called only if such a Reshape reads the value.
    """
    reshapes = [use.node for use in value.uses() if use.idx == SHAPE_INPUT and is_valid_operator(use.node, "Reshape")]
    if not any(map(may_allow_zero, reshapes)):
        return False
    elements = read()
    return bool((elements == 0).any() and (elements == -1).any())


def may_allow_zero(reshape: ir.Node) -> bool:
    """Return whether a 0 in the shape of a Reshape may stand for size 0, not for the size of an axis of the data."""
    allowzero = reshape.attributes.get("allowzero")
    # In an ONNX function, an attribute may refer to an attribute of the call, which may be 1.
    return allowzero is not None and (allowzero.is_ref() or bool(allowzero.value))

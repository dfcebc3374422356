"""Corrections of shapes that onnx infers for single nodes, if they are wrong or onnxruntime computes others."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

from onnx_ops.infer.exact import is_range_length_certain
from onnx_ops.infer.facts import Facts
from onnx_ops.model.views import Dims


def normalize_axes(node: onnx.NodeProto, rank: int) -> onnx.NodeProto:
    """Return a copy of a node with its axes counted from the front and in order.

    Operator sets below 11 allow no negative axes, so onnx infers nothing for a node with a negative axis. But exporters
    write negative axes, and onnxruntime accepts them. For a Squeeze, onnx also expects sorted axes, and does not remove
    an axis that is out of order. Only `axis` and `axes` are read; `rank` is the rank of the first input.
    """
    normalized = onnx.NodeProto()
    normalized.CopyFrom(node)
    for attribute in normalized.attribute:
        if attribute.name == "axis" and attribute.i < 0:
            # OneHot and Unsqueeze count axes in their outputs, which have more axes than their inputs.
            attribute.i += rank + 1 if node.op_type == "OneHot" else rank
        elif attribute.name == "axes":
            output_rank = rank + len(attribute.ints) if node.op_type == "Unsqueeze" else rank
            attribute.ints[:] = sorted({axis + output_rank if axis < 0 else axis for axis in attribute.ints})
    return normalized


def correct_first_output(node: onnx.NodeProto, inputs: Sequence[Facts], dims: Dims | None) -> Dims | None:
    """Return the dims of a standard operator's first output. Wrong sizes of onnx are corrected or become None.

    The result is None if the rank is unknown, or if onnx and onnxruntime may differ about the shape of a NonZero.

    Args:
        node: The node as it is in the model: its axes may be negative.
        inputs: Facts of its inputs.
        dims: The dims that onnx infers; None if it infers no rank.
    """
    data_dims = inputs[0].dims if inputs else None
    if node.op_type == "Concat":
        return _correct_concat(node, inputs, dims)
    if node.op_type == "NonZero":
        # For a scalar, onnxruntime returns one row of indices, and onnx infers no rows.
        may_be_scalar = data_dims is None or len(data_dims) == 0
        return None if may_be_scalar else dims
    if node.op_type == "Range":
        return dims if is_range_length_certain([facts.data for facts in inputs]) else (None,)
    if node.op_type == "MaxUnpool" and len(inputs) > 2 and dims is None:  # onnx does not read `output_shape`
        sizes = inputs[2].data
        return None if sizes is None or sizes.ndim != 1 or (sizes < 0).any() else tuple(sizes.tolist())
    if node.op_type in ("AveragePool", "ConvTranspose", "LpPool", "MaxPool"):
        return _correct_windows(node, data_dims, dims)
    is_reduction = node.op_type.startswith("Reduce") or node.op_type in ("ArgMax", "ArgMin")
    may_be_empty = data_dims is None or not all(isinstance(dim, int) and dim > 0 for dim in data_dims)
    return _open_negative_axes(node, inputs, dims) if is_reduction and may_be_empty else dims


def _correct_concat(node: onnx.NodeProto, inputs: Sequence[Facts], dims: Dims | None) -> Dims | None:
    """Return the dims of a Concat with the correct size on its axis. onnx before 1.23 adds the sizes in 32 bits.

    If an input is empty, onnxruntime ignores its sizes on all other axes, so the output may have the sizes of another
    input there. A size of 0 on such an axis becomes None, unless all inputs have it.
    """
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)  # 1 is Concat-1's default
    if dims is None or not -len(dims) <= axis < len(dims):
        return dims
    axis %= len(dims)
    corrected = list(dims)
    for index, size in enumerate(dims):
        if index != axis and size == 0 and any(facts.dims is None or facts.dims[index] != 0 for facts in inputs):
            corrected[index] = None
    sizes_on_axis = [facts.dims[axis] for facts in inputs if facts.dims is not None]
    known_sizes = [size for size in sizes_on_axis if isinstance(size, int)]
    if len(known_sizes) == len(inputs):
        corrected[axis] = sum(known_sizes)
    return tuple(corrected)


def _correct_windows(node: onnx.NodeProto, data_dims: Dims | None, dims: Dims | None) -> Dims | None:
    """Return the dims of a pool or ConvTranspose with the spatial sizes that onnxruntime computes.

    These sizes become None if onnx and onnxruntime pad differently.
    """
    if dims is None or data_dims is None:
        return dims
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    auto_pad = attributes.get("auto_pad") or b"NOTSET"
    # With auto_pad SAME_*, onnx and onnxruntime differ if `ceil_mode` or the attribute `other` is not at its default.
    other, default = ("output_padding", 0) if node.op_type == "ConvTranspose" else ("dilations", 1)
    is_not_default = any(number != default for number in attributes.get(other, ()))
    if auto_pad.startswith(b"SAME") and (attributes.get("ceil_mode") or is_not_default):
        return dims[:2] + (None,) * len(dims[2:])
    if not attributes.get("ceil_mode"):
        return dims
    ones, zeros = (1,) * len(dims), (0,) * len(dims)
    pads = attributes.get("pads", zeros) if auto_pad == b"NOTSET" else zeros
    corrected = list(dims[:2])
    # `pads` lists all paddings before the data, then all paddings after the data. `zip` reads only the first half.
    for count, size, stride, pad in zip(dims[2:], data_dims[2:], attributes.get("strides", ones), pads, strict=False):
        corrected.append(count)
        if isinstance(count, int) and isinstance(size, int) and (count - 1) * stride >= size + pad:
            corrected[-1] = count - 1  # onnxruntime omits the last window if it starts after the data
    return tuple(corrected)


def _open_negative_axes(node: onnx.NodeProto, inputs: Sequence[Facts], dims: Dims | None) -> Dims | None:
    """Return the dims of a reduction of data that may be empty, with an open size on each negative axis.

    If the data are empty, onnxruntime does not change the sizes of negative axes, and ignores keepdims for these axes.
    So the result is None if keepdims is 0 and an axis is negative: the rank is unknown.
    """
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    axes = [attributes.get("axis", 0)] if node.op_type.startswith("Arg") else attributes.get("axes", [])
    if len(inputs) > 1 and node.input[1]:
        # Unknown axes may be negative, so -1 stands for them. No size is lost: onnx infers no sizes for unknown axes.
        axes = [-1] if inputs[1].data is None else inputs[1].data.reshape(-1).tolist()
    negative_axes = [axis for axis in axes if axis < 0]
    if dims is None or (negative_axes and not attributes.get("keepdims", 1)):
        return None
    dims_by_axis = dict(enumerate(dims)) | {axis % len(dims): None for axis in negative_axes}
    return tuple(dims_by_axis.values())

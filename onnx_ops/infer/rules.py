"""Rules for operators for which onnx infers too little: slicing, and operators that handle shapes.

The docstring of each rule says what onnx lacks, as seen with onnx 1.18 to 1.23.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_ops.infer import shape_arithmetic
from onnx_ops.infer.facts import MAX_RANK, NO_FACTS, Facts, read_tensor
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.model.nodes import LARGE_BYTES, NUM_OUTPUTS_OPSET, SLICE_INPUTS_OPSET, SPLIT_INPUT_OPSET
from sliceport.errors import InvalidSlice
from sliceport.slicing import Masks, Region, SliceSpec, SplitSpec, StridedSliceSpec, resolve_axis
from sliceport.slicing.masks import MASK_ATTRIBUTES
from sliceport.slicing.spec import normalize_axis

_INDEX_TYPES = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
_DTYPES = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}

Rule = Callable[[onnx.NodeProto, Sequence[Facts], int], list[Facts] | None]
"""A function of a node, the facts of its inputs and the version of its operator set.

It returns the facts of the outputs, or None to leave the node to onnx.
"""


def apply_own_rule(node: onnx.NodeProto, domain: str, inputs: Sequence[Facts], opset: int) -> list[Facts] | None:
    """Return the facts of a node's outputs by the rule for its operator. Return None to leave the node to onnx.

    `domain` is the node's domain by `usual_name`, which is empty for standard operators.

    Raises:
        InvalidSlice: A slicing node breaks its specification.
    """
    if domain == STRIDED_SLICE_DOMAIN:
        return _infer_strided_slice(node, inputs) if node.op_type == "StridedSlice" else None
    rule = None if domain else _RULES.get(node.op_type)
    return None if rule is None else rule(node, inputs, opset)


def _infer_slice(node: onnx.NodeProto, inputs: Sequence[Facts], opset: int) -> list[Facts]:
    """Infer a Slice. onnx leaves all sizes open if one bound is open, infers no elements, and crashes at huge steps."""
    data = inputs[0] if inputs else NO_FACTS
    if data.dims is None:
        return [Facts(data.element)]
    if opset >= SLICE_INPUTS_OPSET:
        # The inputs are the data, starts, ends, axes and steps.
        parameters = [_read_list(inputs, index) for index in range(1, 5)]
        is_present = [len(node.input) > index and bool(node.input[index]) for index in range(1, 5)]
        starts_dims = inputs[1].dims if is_present[0] else None  # open `starts` may have a known length
        axis_count = starts_dims[0] if starts_dims is not None and len(starts_dims) == 1 else None
    else:
        parameters = [_ints_attribute(node, name) for name in ("starts", "ends", "axes")] + [None]
        is_present = [values is not None for values in parameters]
        axis_count = None if parameters[0] is None else len(parameters[0])
    starts, ends, axes, steps = parameters
    if axes is None and not is_present[2] and isinstance(axis_count, int) and axis_count <= MAX_RANK:
        axes = tuple(range(axis_count))  # without the input `axes`, the first axes are sliced
    if axes is None:
        return [Facts(data.element, (None,) * len(data.dims))]
    has_open_parameter = any(present and values is None for present, values in zip(is_present, parameters, strict=True))
    if has_open_parameter or starts is None or ends is None:
        # The sizes on these axes are open, and all other axes stay whole.
        rank = len(data.dims)
        sliced_axes = {axis % rank for axis in axes if -rank <= axis < rank}
        dims = tuple([None if axis in sliced_axes else dim for axis, dim in enumerate(data.dims)])
        return [Facts(data.element, dims)]
    return [_infer_known_slice(SliceSpec(starts, ends, axes, steps), data)]


def _infer_known_slice(spec: SliceSpec, data: Facts) -> Facts:
    """Return the facts of the output of a Slice with known parameters. The rank of `data` must be known."""
    assert data.dims is not None
    dims = list(data.dims)
    for axis, bounds in spec.by_axis(len(dims)).items():
        dim = dims[axis]
        if not bounds.is_whole(None):  # None stands for any size of the axis
            open_size = 0 if bounds.is_empty_for_every_size() else None
            dims[axis] = len(resolve_axis(*bounds, dim)) if isinstance(dim, int) else open_size
    output = Facts(data.element, tuple(dims))
    if data.sizes is not None:
        _copy_selected_elements(data, [output], [spec.resolve(data.sizes)])
    return output


def _infer_strided_slice(node: onnx.NodeProto, inputs: Sequence[Facts]) -> list[Facts]:
    """Infer an `ov_ext::StridedSlice`, an operator unknown to onnx. Return [] if any size or parameter is open."""
    begin, end, strides = (_read_list(inputs, index) for index in range(1, 4))
    has_strides = len(node.input) > 3 and bool(node.input[3])
    sizes = inputs[0].sizes if inputs else None
    if sizes is None or begin is None or end is None or (has_strides and strides is None):
        return []
    masks = Masks.of({name: _ints_attribute(node, name) for name in MASK_ATTRIBUTES})
    region = StridedSliceSpec(begin, end, strides, masks).resolve(sizes)
    output = Facts(inputs[0].element, region.output_shape)
    _copy_selected_elements(inputs[0], [output], [region])
    return [output]


def _infer_split(node: onnx.NodeProto, inputs: Sequence[Facts], opset: int) -> list[Facts]:
    """Infer a Split. onnx infers no rank if the part sizes are unknown, and infers no elements."""
    data = inputs[0] if inputs else NO_FACTS
    count = len(node.output)
    if not data.dims:  # the rank is unknown, or 0, which is invalid
        return [Facts(data.element) for _ in range(count)]
    written_axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    axis = normalize_axis(written_axis, len(data.dims))
    size = data.dims[axis]
    # Split-1 has an optional input `split`; Split-2 and Split-11 have only the attribute.
    has_input = (opset == 1 or opset >= SPLIT_INPUT_OPSET) and len(node.input) > 1 and bool(node.input[1])
    part_sizes: Sequence[int | None] | None = _read_list(inputs, 1) if has_input else _ints_attribute(node, "split")
    if part_sizes is None and not has_input and isinstance(size, int):
        part_sizes = SplitSpec.evenly(0, (size,), count, uneven_last=opset >= NUM_OUTPUTS_OPSET).sizes
    if part_sizes is None:
        part_sizes = [None] * count
    if len(part_sizes) != count or any(part_size is not None and part_size < 0 for part_size in part_sizes):
        raise InvalidSlice(f"split={list(part_sizes)} must have a size of at least 0 for each of the {count} outputs")
    outputs = [Facts(data.element, (*data.dims[:axis], part_size, *data.dims[axis + 1 :])) for part_size in part_sizes]
    known_part_sizes = [part_size for part_size in part_sizes if part_size is not None]
    sizes = data.sizes
    if sizes is not None and len(known_part_sizes) == count:
        _copy_selected_elements(data, outputs, SplitSpec(axis, tuple(known_part_sizes)).resolve(sizes))
    return outputs


def _copy_selected_elements(data: Facts, outputs: Sequence[Facts], regions: Sequence[Region]) -> None:
    """Copy the elements that each region selects into the facts of its output.

    Nothing is copied if the data are large, or if none of their elements are known.
    """
    for output, region in zip(outputs, regions, strict=True):
        slices = region.slices
        if data.data is not None and data.data.nbytes <= LARGE_BYTES:
            output.data = data.data[slices].reshape(region.output_shape).copy()
        elif data.integers is not None:
            output.set_integers(data.integers[slices].reshape(region.output_shape))


def _infer_shape(node: onnx.NodeProto, inputs: Sequence[Facts], _: int) -> list[Facts]:
    """Infer a Shape with its elements. onnx infers only its type and shape."""
    dims = inputs[0].dims if inputs else None
    if dims is None:
        return [Facts(onnx.TensorProto.INT64, (None,))]
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    selected = dims[bounds.get("start") : bounds.get("end")]
    facts = Facts(onnx.TensorProto.INT64, (len(selected),))
    if len(selected) <= shape_arithmetic.MAX_ELEMENTS:
        facts.set_integers(np.array([dim if isinstance(dim, int) else None for dim in selected], object))
    return [facts]


def _infer_size(_: onnx.NodeProto, inputs: Sequence[Facts], __: int) -> list[Facts]:
    """Infer a Size with its value. onnx infers only its type and shape."""
    sizes = inputs[0].sizes if inputs else None
    facts = Facts(onnx.TensorProto.INT64, ())
    if sizes is not None and prod(sizes) < 2**63:
        facts.data = np.array(prod(sizes), np.int64)
    return [facts]


def _read_constant(node: onnx.NodeProto, *_: Any) -> list[Facts] | None:
    """Read the type, shape and elements of a Constant. Return None if another attribute than in `_DTYPES` holds them.

    onnx does not infer the elements. Those of strings and of large or external tensors are left out here, too.
    """
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            tensor = attribute.t
            return [Facts(tensor.data_type, tuple(tensor.dims), data=read_tensor(tensor))]
        if attribute.name in _DTYPES:
            array = np.asarray(helper.get_attribute_value(attribute), _DTYPES[attribute.name])
            return [Facts(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, data=array)]
    return None


def _infer_reshape(node: onnx.NodeProto, inputs: Sequence[Facts], _: int) -> list[Facts] | None:
    """Infer a Reshape if the data or the target has open sizes. onnx leaves too many sizes of the output open."""
    target = _read_partly_open_list(inputs, 1)
    # For open data, onnx also needs help if all elements of the target are known. `target` is then None.
    if target is None and len(inputs) > 1 and inputs[0].sizes is None:
        shape = inputs[1].data
        target = shape.tolist() if shape is not None and shape.ndim == 1 and shape.dtype == np.int64 else None
    if target is None:
        return None
    allowzero = any(a.name == "allowzero" and a.i for a in node.attribute)
    return [Facts(inputs[0].element, shape_arithmetic.infer_reshape_dims(inputs[0].dims, target, allowzero=allowzero))]


def _infer_expand(_: onnx.NodeProto, inputs: Sequence[Facts], __: int) -> list[Facts] | None:
    """Infer an Expand to a shape with unknown elements. onnx does not use the known elements of such a shape."""
    target = _read_partly_open_list(inputs, 1)
    if target is None or inputs[0].dims is None:
        return None
    return [Facts(inputs[0].element, shape_arithmetic.infer_expand_dims(inputs[0].dims, target))]


def _infer_constant_of_shape(node: onnx.NodeProto, inputs: Sequence[Facts], _: int) -> list[Facts] | None:
    """Infer a ConstantOfShape of a shape with unknown elements, for which onnx leaves all sizes open."""
    shape = _read_partly_open_list(inputs, 0)
    if shape is None:
        return None
    fill = next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)
    element = onnx.TensorProto.FLOAT if fill is None else fill.data_type
    sizes = [dim if dim is not None and dim >= 0 else None for dim in shape]  # a negative size is invalid
    return [Facts(element, tuple(sizes))]


_RULES: dict[str, Rule] = {
    "Slice": _infer_slice,
    "Split": _infer_split,
    "Shape": _infer_shape,
    "Size": _infer_size,
    "Constant": _read_constant,
    "Reshape": _infer_reshape,
    "Expand": _infer_expand,
    "ConstantOfShape": _infer_constant_of_shape,
}


def _read_list(inputs: Sequence[Facts], index: int) -> tuple[int, ...] | None:
    """Return the integers of input `index`. Return None unless the input is a constant list of INT32 or INT64."""
    facts = inputs[index] if index < len(inputs) else NO_FACTS
    if facts.data is None or facts.element not in _INDEX_TYPES or facts.data.ndim != 1:
        return None
    return tuple(facts.data.tolist())


def _read_partly_open_list(inputs: Sequence[Facts], index: int) -> list[int | None] | None:
    """Return the elements of a short list, None for each unknown one. Return None if all elements are known.

    Also return None if the input is not a short list.
    """
    if index >= len(inputs) or inputs[index].data is not None:
        return None
    integers = inputs[index].list_integers()
    return integers.tolist() if integers is not None and integers.ndim == 1 else None


def _ints_attribute(node: onnx.NodeProto, name: str) -> tuple[int, ...] | None:
    return next((tuple(a.ints) for a in node.attribute if a.name == name), None)

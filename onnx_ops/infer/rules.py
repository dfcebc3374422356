"""Rules for operators that onnx infers too little of: slicing, and the arithmetic of shapes.

The docstring of each rule says what onnx lacks, checked with onnx 1.18 to 1.23.
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

Rule = Callable[[onnx.NodeProto, Sequence[Facts], int], list[Facts] | None]


def apply_own_rule(node: onnx.NodeProto, domain: str, inputs: Sequence[Facts], opset: int) -> list[Facts] | None:
    """Apply the rule for an operator; return the facts of its outputs, or None if onnx is to be asked.

    Raises:
        InvalidSlice: A slicing node breaks its specification.
    """
    if domain == STRIDED_SLICE_DOMAIN:
        return _infer_strided_slice(node, inputs) if node.op_type == "StridedSlice" else None
    rule = None if domain else _RULES.get(node.op_type)
    return None if rule is None else rule(node, inputs, opset)


def _infer_slice(node: onnx.NodeProto, inputs: Sequence[Facts], opset: int) -> list[Facts]:
    """Infer a Slice: onnx leaves all sizes open if one bound is open, moves no elements, and crashes at huge steps."""
    data = inputs[0] if inputs else NO_FACTS
    if data.dims is None:
        return [Facts(data.element)]
    if opset >= SLICE_INPUTS_OPSET:
        lists = [_read_list(inputs, i) for i in range(1, 5)]
        is_given = [len(node.input) > i and bool(node.input[i]) for i in range(1, 5)]
        entry_count = _list_length(inputs[1]) if is_given[0] else None  # open `starts` may have a known length
    else:
        lists = [_ints_attribute(node, name) for name in ("starts", "ends", "axes")] + [None]
        is_given = [values is not None for values in lists]
        entry_count = None if lists[0] is None else len(lists[0])
    starts, ends, axes, steps = lists
    if axes is None and not is_given[2] and entry_count is not None:
        axes = tuple(range(entry_count))
    if axes is None:
        return [Facts(data.element, (None,) * len(data.dims))]
    # With an open list, the named axes are open and all others stay whole.
    has_open_list = any(given and values is None for given, values in zip(is_given, lists, strict=True))
    if has_open_list or starts is None or ends is None:
        named_axes = {axis % len(data.dims) for axis in axes if -len(data.dims) <= axis < len(data.dims)}
        return [Facts(data.element, tuple([None if i in named_axes else dim for i, dim in enumerate(data.dims)]))]
    spec = SliceSpec(starts, ends, axes, steps)
    dims = list(data.dims)
    for axis, entry in spec.by_axis(len(dims)).items():
        dim = dims[axis]
        if not entry.is_whole(None):
            dims[axis] = len(resolve_axis(*entry, dim)) if isinstance(dim, int) else None
    result = Facts(data.element, tuple(dims))
    if data.sizes is not None:
        _copy_selected_elements(data, [result], [spec.resolve(data.sizes)])
    return [result]


def _infer_strided_slice(node: onnx.NodeProto, inputs: Sequence[Facts]) -> list[Facts] | None:
    """Infer an `ov_ext::StridedSlice`, which onnx does not know."""
    lists = [_read_list(inputs, i) for i in range(1, 4)]
    has_strides = len(node.input) > 3 and bool(node.input[3])
    begin, end, strides = lists
    sizes = inputs[0].sizes if inputs else None
    if sizes is None or begin is None or end is None or (has_strides and strides is None):
        return None
    masks = Masks.of({name: _ints_attribute(node, name) for name in MASK_ATTRIBUTES})
    region = StridedSliceSpec(begin, end, strides, masks).resolve(sizes)
    result = Facts(inputs[0].element, region.output_shape)
    _copy_selected_elements(inputs[0], [result], [region])
    return [result]


def _infer_split(node: onnx.NodeProto, inputs: Sequence[Facts], opset: int) -> list[Facts] | None:
    """Infer a Split. onnx infers no rank if the part sizes are unknown, and never propagates elements."""
    data = inputs[0] if inputs else NO_FACTS
    count = len(node.output)
    if data.dims is None or not data.dims:
        return [Facts(data.element) for _ in range(count)]
    axis = normalize_axis(next((a.i for a in node.attribute if a.name == "axis"), 0), len(data.dims))
    size = data.dims[axis]
    # Split-1 has an optional input `split`; Split-2 and Split-11 have only the attribute.
    has_input = (opset == 1 or opset >= SPLIT_INPUT_OPSET) and len(node.input) > 1 and bool(node.input[1])
    parts: Sequence[int | None] | None = _read_list(inputs, 1) if has_input else _ints_attribute(node, "split")
    if parts is None and not has_input and isinstance(size, int):
        parts = SplitSpec.evenly(0, (size,), count, uneven_last=opset >= NUM_OUTPUTS_OPSET).sizes
    if parts is None:
        parts = [None] * count
    if len(parts) != count or any(part is not None and part < 0 for part in parts):
        raise InvalidSlice(f"split={list(parts)} must have a size of at least 0 for each of the {count} outputs")
    results = [Facts(data.element, (*data.dims[:axis], part, *data.dims[axis + 1 :])) for part in parts]
    known_parts = [part for part in parts if part is not None]
    sizes = data.sizes
    if sizes is not None and len(known_parts) == count:
        _copy_selected_elements(data, results, SplitSpec(axis, tuple(known_parts)).resolve(sizes))
    return results


def _copy_selected_elements(data: Facts, results: Sequence[Facts], regions: Sequence[Region]) -> None:
    """Copy the selected elements of the data to the facts of the outputs."""
    for result, region in zip(results, regions, strict=True):
        slices = region.slices
        if data.data is not None and data.data.nbytes <= LARGE_BYTES:
            result.data = data.data[slices].reshape(region.output_shape).copy()
        elif data.integers is not None:
            result.set_integers(data.integers[slices].reshape(region.output_shape))


def _infer_shape(node: onnx.NodeProto, inputs: Sequence[Facts], _: int) -> list[Facts]:
    """Infer a Shape. onnx infers no elements."""
    dims = inputs[0].dims if inputs else None
    if dims is None:
        return [Facts(onnx.TensorProto.INT64, (None,))]
    bounds = {a.name: a.i for a in node.attribute}
    selected = dims[bounds.get("start") : bounds.get("end")]
    fact = Facts(onnx.TensorProto.INT64, (len(selected),))
    if len(selected) <= shape_arithmetic.MAX_ELEMENTS:
        elements = shape_arithmetic.make_open((len(selected),))
        elements[:] = [dim if isinstance(dim, int) else None for dim in selected]
        fact.set_integers(elements)
    return [fact]


def _infer_size(_: onnx.NodeProto, inputs: Sequence[Facts], __: int) -> list[Facts]:
    """Infer a Size. onnx infers no element."""
    sizes = inputs[0].sizes if inputs else None
    fact = Facts(onnx.TensorProto.INT64, ())
    if sizes is not None and prod(sizes) < 2**63:
        fact.data = np.array(prod(sizes), np.int64)
    return [fact]


def _read_constant(node: onnx.NodeProto, *_: Any) -> list[Facts] | None:
    """Read a Constant. onnx infers no elements."""
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            tensor = attribute.t
            fact = Facts(tensor.data_type, tuple(tensor.dims))
            fact.data = read_tensor(tensor)
            return [fact]
        kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
        if attribute.name in kinds:
            array = np.asarray(helper.get_attribute_value(attribute), kinds[attribute.name])
            return [Facts(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, data=array)]
    return None


def _infer_reshape(node: onnx.NodeProto, inputs: Sequence[Facts], _: int) -> list[Facts] | None:
    """Infer a Reshape to a shape with open entries: onnx leaves all sizes open."""
    target = _read_partly_open_list(inputs, 1)
    if target is None:
        return None
    allowzero = any(a.name == "allowzero" and a.i for a in node.attribute)
    return [Facts(inputs[0].element, shape_arithmetic.reshape(inputs[0].dims, target, allowzero=allowzero))]


def _infer_expand(_: onnx.NodeProto, inputs: Sequence[Facts], __: int) -> list[Facts] | None:
    """Infer an Expand to a shape with open entries: onnx does not use the known ones."""
    target = _read_partly_open_list(inputs, 1)
    if target is None or inputs[0].dims is None:
        return None
    return [Facts(inputs[0].element, shape_arithmetic.expand(inputs[0].dims, target))]


def _infer_constant_of_shape(node: onnx.NodeProto, inputs: Sequence[Facts], _: int) -> list[Facts] | None:
    """Infer a ConstantOfShape with open entries: onnx leaves all sizes open."""
    shape = _read_partly_open_list(inputs, 0)
    if shape is None:
        return None
    value = next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)
    element = onnx.TensorProto.FLOAT if value is None else value.data_type
    return [Facts(element, tuple([dim if dim is not None and dim >= 0 else None for dim in shape]))]


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


def _list_length(fact: Facts) -> int | None:
    """Return the number of elements of a list; None if it is open or above MAX_RANK."""
    size = fact.dims[0] if fact.dims is not None and len(fact.dims) == 1 else None
    return size if isinstance(size, int) and size <= MAX_RANK else None


def _read_list(inputs: Sequence[Facts], index: int) -> tuple[int, ...] | None:
    """Return the integers of an input; None if it is not a constant list of them."""
    fact = inputs[index] if index < len(inputs) else NO_FACTS
    if fact.data is None or fact.element not in _INDEX_TYPES or fact.data.ndim != 1:
        return None
    return tuple(fact.data.tolist())


def _read_partly_open_list(inputs: Sequence[Facts], index: int) -> list[int | None] | None:
    """Return the integers of a list that is not constant (onnx handles constant ones), None for each unknown one."""
    if index >= len(inputs) or inputs[index].data is not None:
        return None
    integers = inputs[index].list_integers()
    return integers.tolist() if integers is not None and integers.ndim == 1 else None


def _ints_attribute(node: onnx.NodeProto, name: str) -> tuple[int, ...] | None:
    return next((tuple(a.ints) for a in node.attribute if a.name == name), None)

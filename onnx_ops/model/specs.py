"""The spec and the Regions of a slicing node: Slice-1/10/11/13, Split-1/2/11/13/18 and ov_ext::StridedSlice-1.

Parameters are read from attributes, initializers and outputs of Constant nodes. Source: the ONNX operator pages.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

import onnx

from onnx_ops.model.cached_read import cached_read
from onnx_ops.model.element_type import ElementType
from onnx_ops.model.nodes import (
    MAX_AXES,
    MISSING,
    NUM_OUTPUTS_OPSET,
    SLICE_INPUTS_OPSET,
    SPLIT_INPUT_OPSET,
    STRIDED_SLICE_VERSION,
    constant,
    known_data_shape,
    node_name,
    read_int,
    read_ints,
)
from onnx_ops.model.read import describe_cause
from onnx_ops.model.views import NodeView, TensorView
from sliceport.errors import DynamicSlice, InvalidSlice, Rule
from sliceport.slicing import Masks, Region, SliceSpec, SplitSpec, StridedSliceSpec
from sliceport.slicing.masks import MASK_ATTRIBUTES
from sliceport.wording import count_of

_Formats = dict[int, tuple[str, int]]  # maps an element type to its code in `struct` and its size in bytes
_INT64_FORMAT: _Formats = {ElementType.INT64.value: ("q", 8)}
_FORMATS: _Formats = {ElementType.INT32.value: ("i", 4), **_INT64_FORMAT}
_MAX_PARAMETERS = 2**20  # far above MAX_AXES and the parts of real models; a longer list would only take memory


class MissingParameter(DynamicSlice):
    """A parameter is stored in an external data file that cannot be read."""


SpecAndRegions = tuple[SliceSpec | SplitSpec | StridedSliceSpec, tuple[Region, ...]]
"""The spec of a node, and the Region of each of its outputs."""


def resolve_node(node: NodeView, opset: int) -> SpecAndRegions:
    """Return the parameters of a slicing node as a spec, and the Region of the data that each output selects.

    Raises:
        InvalidSlice: The node breaks its specification.
        DynamicSlice: The shape of the data or a parameter is not known.
    """
    shape = known_data_shape(node)
    spec: SliceSpec | StridedSliceSpec | SplitSpec | None = None
    # The parameters come before the test of the shape, because a parameter in a missing file is the error to report.
    if node.op_type != "Split":
        spec = slice_spec(node, opset) if node.op_type == "Slice" else strided_slice_spec(node)
    if shape is None:
        raise DynamicSlice("the shape of its input is not known")
    spec = spec or split_spec(node, opset, shape)
    return spec, _resolve_cached(spec, shape)


@lru_cache(maxsize=1024)
def _resolve_cached(spec: SliceSpec | SplitSpec | StridedSliceSpec, shape: tuple[int, ...]) -> tuple[Region, ...]:
    """Return the Regions that a spec selects. The cache saves time because models repeat their slices in each layer."""
    return spec.resolve(shape) if isinstance(spec, SplitSpec) else (spec.resolve(shape),)


def slice_spec(node: NodeView, opset: int) -> SliceSpec:
    """Return the starts, ends, axes and steps of a Slice.

    Raises:
        InvalidSlice: The number of inputs is wrong, or a parameter is missing or not valid.
        DynamicSlice: A parameter is not a constant that can be read, or is an attribute of the surrounding function.
    """
    if opset >= SLICE_INPUTS_OPSET:
        _check_inputs(node, 3, 5, opset)
        starts, ends = _read_input(node, 1, "starts"), _read_input(node, 2, "ends")
        axes, steps = _read_input(node, 3, "axes"), _read_input(node, 4, "steps")
    else:
        _check_inputs(node, 1, 1, opset)
        starts, ends, axes = (read_ints(node, name) for name in ("starts", "ends", "axes"))
        steps = None
    if starts is None or ends is None:
        raise InvalidSlice(f"{'starts' if starts is None else 'ends'} is missing")
    return SliceSpec(starts, ends, axes, steps)


def strided_slice_spec(node: NodeView) -> StridedSliceSpec:
    """Return the begin, end, strides and masks of an `ov_ext::StridedSlice`.

    Raises:
        InvalidSlice: The number of inputs is wrong, or a parameter is missing or not valid.
        DynamicSlice: A parameter is not a constant that can be read, or is an attribute of the surrounding function.
    """
    _check_inputs(node, 3, 4, STRIDED_SLICE_VERSION)
    begin, end, strides = _read_input(node, 1, "begin"), _read_input(node, 2, "end"), _read_input(node, 3, "strides")
    if begin is None or end is None:
        raise InvalidSlice(f"{'begin' if begin is None else 'end'} is missing")
    masks = Masks.of({name: read_ints(node, name) for name in MASK_ATTRIBUTES})
    return StridedSliceSpec(begin, end, strides, masks)


def split_spec(node: NodeView, opset: int, shape: tuple[int, ...]) -> SplitSpec:
    """Return the axis of a Split and the size of each part. `shape` is the shape of its data.

    Split-1 may have the sizes as an input or an attribute, Split-2 and 11 as an attribute, Split-13 and 18 as an input.

    Raises:
        InvalidSlice: The data are a scalar, the number of inputs or outputs is wrong, a parameter is not valid, or
            Split-18 has both or neither of `split` and `num_outputs`. If no sizes are given: the axis is out of range,
            or cannot be divided into a part for each output. If sizes are given, they are not compared with the axis.
        DynamicSlice: A parameter is not a constant that can be read, or is an attribute of the surrounding function.
    """
    takes_input = _takes_sizes(opset)
    _check_inputs(node, 1, 2 if takes_input else 1, opset)
    axis = read_int(node, "axis", 0)
    output_count = len(node.outputs)
    if not shape:
        raise InvalidSlice("data is a scalar, but splitting needs at least one axis")
    sizes = _read_input(node, 1, "split", _FORMATS if opset == 1 else _INT64_FORMAT) if takes_input else None
    if opset < SPLIT_INPUT_OPSET and sizes is None:
        sizes = read_ints(node, "split")
    num_outputs = read_int(node, "num_outputs", None) if opset >= NUM_OUTPUTS_OPSET else None
    if sizes is not None:
        if num_outputs is not None:
            raise InvalidSlice("split and num_outputs must not both be given")
        if len(sizes) != output_count:
            listed = list(sizes) if len(sizes) <= MAX_AXES else f"[{sizes[0]}, ...] of {len(sizes)} sizes"
            rule: Rule = "count" if sizes else "no sizes"
            raise InvalidSlice(f"split={listed} must have a size for each of the {output_count} outputs", rule=rule)
        return SplitSpec(axis, sizes)
    if opset < NUM_OUTPUTS_OPSET:
        return SplitSpec.evenly(axis, shape, output_count)
    if num_outputs is None:
        raise InvalidSlice("one of split and num_outputs must be given")
    if num_outputs != output_count:
        rule = "num_outputs above" if num_outputs > output_count else "num_outputs below"
        raise InvalidSlice(f"num_outputs is {num_outputs}, but the node has {output_count} outputs", rule=rule)
    return SplitSpec.evenly(axis, shape, output_count, uneven_last=True)


def split_spec_with_open_sizes(node: NodeView, opset: int, sizes: Sequence[int | None] | None) -> SplitSpec:
    """Return the spec of a Split of data that may have open sizes.

    The axis of the spec is counted from the front, unless the rank is open or the axis is out of range.

    Args:
        node: The Split.
        opset: Version of its operator set.
        sizes: The sizes of its data, None for an open one; None if the rank is open.

    Raises:
        InvalidSlice: See `split_spec`; or the part sizes do not add up to the known size of the axis.
        DynamicSlice: See `split_spec`; or the part sizes are missing, and the size of the axis is open.
    """
    axis = read_int(node, "axis", 0)
    is_in_range = sizes is not None and -len(sizes) <= axis < len(sizes)
    size = sizes[axis] if sizes is not None and is_in_range else None
    # From operator set 13 on, Split has no attribute `split`, and `split_spec` does not read one.
    has_attribute = opset < SPLIT_INPUT_OPSET and "split" in node.attributes
    has_part_sizes = has_attribute or (_takes_sizes(opset) and has_sizes_input(node))
    data = node.inputs[0] if node.inputs else None
    data_name = "its data" if data is None else repr(data.name)
    if not has_part_sizes and size is None and (sizes is None or is_in_range):
        raise DynamicSlice(f"it splits axis {axis} of {data_name} evenly, and the size of that axis is not known")
    # `split_spec` reads only the size of the split axis, and only if the part sizes are missing. In that case, the size
    # is known or the axis is out of range. So it never reads a 0 for an open size, or the 0 in (0,) for an open rank.
    spec = split_spec(node, opset, (0,) if sizes is None else tuple([size or 0 for size in sizes]))
    if size is not None and sum(spec.sizes) != size:
        total = sum(spec.sizes)
        raise InvalidSlice(f"its parts have {total} elements, but axis {axis} of {data_name} has {size}", rule="sizes")
    return SplitSpec(axis % len(sizes), spec.sizes) if sizes is not None and is_in_range else spec


def has_sizes_input(node: NodeView) -> bool:
    """Return whether a Split has the input for the sizes of its parts. An empty name leaves the input out."""
    return len(node.inputs) > 1 and node.inputs[1] is not None


def _takes_sizes(opset: int) -> bool:
    """Return whether the Split of an operator set has an input for the sizes of its parts."""
    return opset == 1 or opset >= SPLIT_INPUT_OPSET


def _check_inputs(node: NodeView, fewest: int, most: int, opset: int) -> None:
    """Raise InvalidSlice unless a node has `fewest` to `most` inputs. An input with an empty name counts, too."""
    count = len(node.inputs)
    if not fewest <= count <= most:
        expected = count_of(most, "input") if fewest == most else f"{fewest} to {most} inputs"
        raise InvalidSlice(f"{node.op_type} of opset {opset} takes {expected}, got {count}")


def _read_input(node: NodeView, index: int, name: str, formats: _Formats = _FORMATS) -> tuple[int, ...] | None:
    """Return the integers of an input, which must be a constant list that can be read; None if it is left out."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    tensor = constant(value)
    if tensor is None:
        if value.shape is not None and len(value.shape) != 1:
            raise InvalidSlice(f"{name} must have one dimension, got {len(value.shape)}", rule="list")
        if MISSING in value.meta:
            raise MissingParameter(f"{name} is stored outside the model and cannot be read ({value.meta[MISSING]})")
        producer = value.producer()
        source = f"node {node_name(producer)!r} ({producer.op_type})" if producer else f"input {value.name!r}"
        raise DynamicSlice(f"{name} comes from {source}, which is not a constant")
    return cached_read(tensor, (name, *formats), lambda: _read_integers(tensor, name, formats))


def _read_integers(tensor: TensorView, name: str, formats: _Formats) -> tuple[int, ...]:
    """Return the integers of a constant list. `formats` has the allowed types; `name` is for messages."""
    proto = getattr(tensor, "raw", None)
    if isinstance(proto, onnx.TensorProto):  # the common case, read without conversions
        dtype, dims, data = proto.data_type, proto.dims[:], proto.raw_data
    else:
        dtype, dims, data = tensor.dtype.value, list(tensor.shape), b""
    code, width = formats.get(dtype, ("", 0))
    if not code:
        allowed = " or ".join(ElementType(number).name.lower() for number in formats)
        raise InvalidSlice(f"{name} must be {allowed}, got {tensor.dtype.name}")
    if len(dims) != 1:
        raise InvalidSlice(f"{name} must have one dimension, got shape {dims}", rule="list")
    count = int(dims[0])
    if count > _MAX_PARAMETERS:
        raise InvalidSlice(f"{name} has {count} entries, more than any tensor has axes or parts")
    try:
        data = data or tensor.tobytes()  # the elements may be in another field or file
    except Exception as error:
        reason = describe_cause(error)
        raise MissingParameter(f"{name} is stored outside the model and cannot be read ({reason})") from None
    if len(data) != count * width:
        raise InvalidSlice(f"{name} holds {len(data)} bytes, but shape {dims} needs {count * width}")
    return struct.unpack(f"<{count}{code}", data)

"""One ONNX node as a spec and its Regions: Slice-1/10/11/13, Split-1/2/11/13/18 and ov_ext::StridedSlice-1.

Source: the ONNX operator pages. Nodes are those of any view; constants are initializers and outputs of Constant nodes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard, TypeVar, overload

import onnx

from onnx_ops.model.cached_read import cached_read
from onnx_ops.model.domains import STANDARD_DOMAINS, STRIDED_SLICE_DOMAIN
from onnx_ops.model.element_type import ElementType
from onnx_ops.model.views import (
    INT,
    INTS,
    STRING,
    TENSOR,
    AttributeView,
    NodeView,
    OperatorView,
    ShapeView,
    TensorView,
    ValueView,
)
from sliceport.errors import DynamicSlice, InvalidSlice, Rule
from sliceport.slicing import Masks, Region, SliceSpec, SplitSpec, StridedSliceSpec
from sliceport.slicing.masks import MASK_ATTRIBUTES
from sliceport.slicing.spec import normalize_axis

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_ops.model.views import Array
    from sliceport.defects.defect import Defect

Node = TypeVar("Node", bound=NodeView)
SLICING = ("Slice", "Split")
STRIDED_SLICE_VERSION = 1
_INT64_FORMAT = {ElementType.INT64.value: ("q", 8)}
_FORMATS = {ElementType.INT32.value: ("i", 4), **_INT64_FORMAT}
_CONSTANTS = {"value": TENSOR, "value_int": INT, "value_ints": INTS}
"""The attributes of Constant that are read, with their types."""
_Formats = dict[int, tuple[str, int]]  # by element type: the code in `struct`, and the bytes of an element
_MAX_PARAMETERS = 2**20
LARGE_BYTES = 8192
"""Constants of more bytes are weights: their shape counts, and nothing reads their elements."""
MAX_AXES = 64
"""The most axes that a NumPy array can have."""
MARK = "sliceport.contested"
"""Key in the `meta` of a node for the defect that makes it contested, if the node alone does not show that."""
MISSING = "sliceport.missing"
"""Key in the `meta` of a value that was a constant for the reason why its data cannot be read."""
SPLIT_INPUT_OPSET = 13
SLICE_INPUTS_OPSET = 10
NUM_OUTPUTS_OPSET = 18


_UNLIMITED = 2**31
_INPUT_COUNTS = {
    "Slice": (1, 5),
    "Split": (1, 2),
    "Gather": (2, 2),
    "Concat": (1, _UNLIMITED),
    "Squeeze": (1, 2),
    "Unsqueeze": (1, 2),
    "Reshape": (1, 2),
    "Expand": (2, 2),
    "Constant": (0, 0),
    "Where": (3, 3),
    "MatMul": (2, 2),
    "ConvTranspose": (2, 3),
    "Einsum": (1, _UNLIMITED),
    **dict.fromkeys("Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Or Sub Xor".split(), (2, 2)),  # noqa: SIM905
}
"""The least and the most inputs of standard operators over all versions; other operators have one."""


class MissingParameter(DynamicSlice):
    """A parameter is stored in an external data file that cannot be read."""


def is_slicing(node: OperatorView) -> bool:
    """Return whether this package lowers the node."""
    return is_standard(node, *SLICING) or is_strided_slice(node)


def is_strided_slice(node: OperatorView | None) -> bool:
    """Return whether the node is an `ov_ext::StridedSlice`."""
    return node is not None and node.op_type == "StridedSlice" and node.domain == STRIDED_SLICE_DOMAIN


def is_standard(node: OperatorView | None, *op_types: str) -> bool:
    """Return whether the node is one of these standard operators."""
    return node is not None and node.domain in STANDARD_DOMAINS and node.op_type in op_types


def is_operator(node: Node | None, *op_types: str) -> TypeGuard[Node]:
    """Return whether the node is one of these standard operators with a valid arity."""
    return node is not None and is_standard(node, *op_types) and has_valid_arity(node)


def has_valid_arity(node: NodeView) -> bool:
    """Return whether a standard node has as many inputs and outputs as its operator allows, and its first input."""
    fewest_inputs, most_inputs = _INPUT_COUNTS.get(node.op_type, (1, 1))
    input_count, output_count = len(node.inputs), len(node.outputs)
    has_first_input = node.op_type == "Constant" or (input_count > 0 and node.inputs[0] is not None)
    is_output_count_valid = output_count == 1 or (node.op_type == "Split" and output_count > 0)
    return fewest_inputs <= input_count <= most_inputs and has_first_input and is_output_count_valid


def node_name(node: NodeView) -> str:
    """Return the name of a node, or that of its first output if the node has none."""
    return node.name or next((output.name for output in node.outputs if output.name), "") or ""


@overload
def constant(value: ir.Value) -> ir.TensorProtocol | None: ...
@overload
def constant(value: ValueView) -> TensorView | None: ...
def constant(value: ValueView) -> TensorView | None:
    """Return the constant behind a value, without reading its data; None if the value depends on the model's inputs.

    Call it inside `defaults_aside`: the initializer of an input is a default, not a constant.
    """
    if value.const_value is not None:
        return value.const_value
    producer = value.producer()
    if producer is None or producer.op_type != "Constant" or producer.domain not in STANDARD_DOMAINS:
        return None
    for name, attribute in producer.attributes.items():
        if _CONSTANTS.get(name) == attribute.type and not attribute.ref_attr_name:
            return _as_tensor(attribute)
    return None


def _as_tensor(attribute: AttributeView) -> TensorView:
    """Return the value of a Constant's attribute as a tensor. onnx-ir has integers as Python integers."""
    value = attribute.value
    if not isinstance(value, int | Sequence):
        tensor: TensorView = value
        return tensor
    import onnx_ir as ir

    if isinstance(value, int):
        return ir.tensor(value, dtype=ir.DataType.INT64)
    return cached_read(attribute, "tensor", lambda: ir.tensor(list(value), dtype=ir.DataType.INT64))


def read_elements(value: ValueView, max_count: int) -> Array | None:
    """Return the elements of a constant; None if the value is not constant, is unreadable or has over `max_count`."""
    tensor = constant(value)
    if tensor is None or tensor.size > max_count:
        return None
    try:
        return tensor.numpy()
    except Exception:  # onnx-ir has several classes of errors for data that it cannot read
        return None


def _shape_of(value: ValueView) -> ShapeView | None:
    return value.shape if value.shape is not None or value.const_value is None else value.const_value.shape


def known_shape(node: NodeView) -> tuple[int, ...] | None:
    """Return the shape of the node's data; None unless every size is known."""
    data = node.inputs[0] if node.inputs else None
    if data is None:
        return None
    shape = _shape_of(data)
    if shape is None:
        return None
    dims = tuple([dim for dim in shape if isinstance(dim, int)])
    return dims if len(dims) == len(shape) else None


def has_known_parameters(node: NodeView) -> bool:
    """Return whether the shape of a node's data is known and its parameters are constants."""
    return known_shape(node) is not None and all(
        value is None or constant(value) is not None for value in node.inputs[1:]
    )


Known = tuple[SliceSpec | SplitSpec | StridedSliceSpec, tuple[Region, ...]]
"""The spec of a node, and the Region of each of its outputs."""


def resolve(node: NodeView, opset: int) -> Known:
    """Return the spec of a slicing node, and the Region that each output selects.

    Raises:
        InvalidSlice: The node breaks its specification.
        DynamicSlice: The shape is not known, or a parameter is not a constant that can be read.
    """
    shape = known_shape(node)
    if shape is None:
        raise DynamicSlice("the shape of its input is not known")
    if node.op_type == "Split":
        parts = split_spec(node, opset, shape)
        return parts, parts.resolve(shape)
    spec = slice_spec(node, opset) if node.op_type == "Slice" else strided_slice_spec(node)
    return spec, (_resolve_cached(spec, shape),)


@lru_cache(maxsize=1024)
def _resolve_cached(spec: SliceSpec | StridedSliceSpec, shape: tuple[int, ...]) -> Region:
    """Resolve a spec. The cache pays because models repeat their slices in each layer."""
    return spec.resolve(shape)


def slice_spec(node: NodeView, opset: int) -> SliceSpec:
    """Return the spec of a Slice node.

    Raises:
        InvalidSlice: A required parameter is missing, has a wrong type or is not a list.
        DynamicSlice: A parameter is not a constant that can be read, or each call of a function sets it.
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


def find_disagreement(
    node: NodeView, opset: int, sizes: Sequence[int | None] | None = None, spec: SliceSpec | None = None
) -> Defect | None:
    """Return the defect that makes engines disagree about a Slice or Split with these known parameters, or None.

    Args:
        node: Any node.
        opset: Version of its operator set.
        sizes: The sizes of its data, None for each open one; by default the shape of its first input.
        spec: The spec of the Slice, if it has been read.
    """
    if not is_standard(node, *SLICING):
        return None
    if MARK in node.meta:
        mark: Defect = node.meta[MARK]
        return mark
    data = node.inputs[0] if node.inputs else None
    if sizes is None and data is not None:
        shape = _shape_of(data)
        sizes = None if shape is None else [dim if isinstance(dim, int) else None for dim in shape]
    from onnx_ops.model.contested import (  # loads the defects, which lowering does not need
        find_slice_disagreement,
        find_split_disagreement,
    )

    try:
        if node.op_type == "Slice":
            return find_slice_disagreement(spec or slice_spec(node, opset), sizes)
        if opset < NUM_OUTPUTS_OPSET or "num_outputs" not in node.attributes or sizes is None:
            return None
        axis = normalize_axis(read_int(node, "axis", 0), len(sizes))
        # The parts depend on the size of the split axis alone, so that open sizes of other axes may be 0.
        shape_of_parts = tuple([size or 0 for size in sizes])
        return find_split_disagreement(split_spec(node, opset, shape_of_parts)) if sizes[axis] is not None else None
    except (InvalidSlice, DynamicSlice):
        return None


def strided_slice_spec(node: NodeView) -> StridedSliceSpec:
    """Return the spec of an `ov_ext::StridedSlice` node.

    Raises:
        InvalidSlice: A required parameter is missing, has a wrong type or is not a list.
        DynamicSlice: A parameter is not a constant that can be read.
    """
    _check_inputs(node, 3, 4, STRIDED_SLICE_VERSION)
    begin, end, strides = _read_input(node, 1, "begin"), _read_input(node, 2, "end"), _read_input(node, 3, "strides")
    if begin is None or end is None:
        raise InvalidSlice(f"{'begin' if begin is None else 'end'} is missing")
    masks = Masks.of({name: read_ints(node, name) for name in MASK_ATTRIBUTES})
    return StridedSliceSpec(begin, end, strides, masks)


def split_spec(node: NodeView, opset: int, shape: tuple[int, ...]) -> SplitSpec:
    """Return the spec of a Split node of data of `shape`, with the size of each part.

    Raises:
        InvalidSlice: The parts are given twice or not at all (opset 18), or there are more or fewer parts than outputs.
        DynamicSlice: A parameter is not a constant that can be read.
    """
    _check_inputs(node, 1, 2 if opset == 1 or opset >= SPLIT_INPUT_OPSET else 1, opset)
    axis = read_int(node, "axis", 0)
    count = len(node.outputs)
    if not shape:
        raise InvalidSlice("data is a scalar, but splitting needs at least one axis")
    formats = _FORMATS if opset == 1 else _INT64_FORMAT
    sizes = _read_input(node, 1, "split", formats) if opset == 1 or opset >= SPLIT_INPUT_OPSET else None
    if opset < SPLIT_INPUT_OPSET and sizes is None:
        sizes = read_ints(node, "split")
    num_outputs = read_int(node, "num_outputs", None) if opset >= NUM_OUTPUTS_OPSET else None
    if sizes is not None:
        if num_outputs is not None:
            raise InvalidSlice("split and num_outputs must not both be given")
        if len(sizes) != count:
            listed = list(sizes) if len(sizes) <= MAX_AXES else f"[{sizes[0]}, ...] of {len(sizes)} sizes"
            raise InvalidSlice(
                f"split={listed} must have a size for each of the {count} outputs", "count" if sizes else "no sizes"
            )
        return SplitSpec(axis, sizes)
    if opset < NUM_OUTPUTS_OPSET:
        return SplitSpec.evenly(axis, shape, count)
    if num_outputs is None:
        raise InvalidSlice("one of split and num_outputs must be given")
    if num_outputs != count:
        rule: Rule = "num_outputs above" if num_outputs > count else "num_outputs below"
        raise InvalidSlice(f"num_outputs is {num_outputs}, but the node has {count} outputs", rule)
    return SplitSpec.evenly(axis, shape, count, uneven_last=True)


def known_split(node: NodeView, opset: int, sizes: Sequence[int | None] | None) -> SplitSpec:
    """Return the parts of a Split, its axis counted from the front if the rank is known.

    Args:
        node: The Split.
        opset: Version of its operator set.
        sizes: The sizes of its data, None for an open one; None if the rank is open.

    Raises:
        InvalidSlice: The parts break a rule, or do not add up to the size of the axis, if that is known.
        DynamicSlice: The parts are not known.
    """
    axis = read_int(node, "axis", 0)
    in_range = sizes is not None and -len(sizes) <= axis < len(sizes)
    size = sizes[axis] if sizes is not None and in_range else None
    is_written = "split" in node.attributes or (opset >= SPLIT_INPUT_OPSET and len(node.inputs) > 1)
    data = node.inputs[0] if node.inputs else None
    name = "its data" if data is None else repr(data.name)
    if not is_written and size is None:
        raise DynamicSlice(f"it splits axis {axis} of {name} evenly, and the size of that axis is not known")
    # Only the size of the split axis is read, and only if the parts are not written.
    spec = split_spec(node, opset, (0,) if sizes is None else tuple([size or 0 for size in sizes]))
    if size is not None and sum(spec.sizes) != size:
        raise InvalidSlice(f"its parts have {sum(spec.sizes)} elements, but axis {axis} of {name} has {size}", "sizes")
    return SplitSpec(axis % len(sizes), spec.sizes) if sizes is not None and in_range else spec


def _check_inputs(node: NodeView, fewest: int, most: int, opset: int) -> None:
    count = len(node.inputs)
    if not fewest <= count <= most:
        expected = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise InvalidSlice(f"{node.op_type} of opset {opset} has {expected} inputs, got {count}")


def _read_input(node: NodeView, index: int, name: str, formats: _Formats = _FORMATS) -> tuple[int, ...] | None:
    """Return the integers of an input that is a one-dimensional constant; None if it is left out."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return None
    tensor = constant(value)
    if tensor is None:
        if value.shape is not None and len(value.shape) != 1:
            raise InvalidSlice(f"{name} must have one dimension, got {len(value.shape)}", "list")
        if MISSING in value.meta:
            raise MissingParameter(f"{name} is stored outside the model and cannot be read ({value.meta[MISSING]})")
        producer = value.producer()
        source = f"node {producer.name!r} ({producer.op_type})" if producer else f"input {value.name!r}"
        raise DynamicSlice(f"{name} comes from {source}, which is not a constant")
    return cached_read(tensor, (name, *formats), lambda: _read_integers(tensor, name, formats))


def _read_integers(tensor: TensorView, name: str, formats: _Formats) -> tuple[int, ...]:
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
        raise InvalidSlice(f"{name} must have one dimension, got shape {dims}", "list")
    count = int(dims[0])
    if count > _MAX_PARAMETERS:
        raise InvalidSlice(f"{name} has {count} entries, more than any tensor has axes or parts")
    try:
        data = data or tensor.tobytes()
    except Exception as error:
        raise MissingParameter(f"{name} is stored outside the model and cannot be read ({error})") from None
    if len(data) != count * width:
        raise InvalidSlice(f"{name} holds {len(data)} bytes, but its shape {dims} takes {count * width}")
    return struct.unpack(f"<{count}{code}", data)


def read_ints(node: NodeView, name: str) -> tuple[int, ...] | None:
    """Return the integers of an attribute; None if it is left out.

    Raises:
        InvalidSlice: The attribute has another type.
        DynamicSlice: The attribute refers to an attribute of the function that the node is in.
    """
    attribute = _get_attribute(node, name)
    if attribute is None:
        return None
    if attribute.type != INTS:
        raise InvalidSlice(f"attribute {name} must be a list of integers")
    return tuple(attribute.as_ints())


@overload
def read_int(node: NodeView, name: str, default: int) -> int: ...
@overload
def read_int(node: NodeView, name: str, default: None) -> int | None: ...
def read_int(node: NodeView, name: str, default: int | None) -> int | None:
    """Return the integer of an attribute; the default if it is left out.

    Raises:
        InvalidSlice: The attribute has another type.
        DynamicSlice: The attribute refers to an attribute of the function that the node is in.
    """
    attribute = _get_attribute(node, name)
    if attribute is None:
        return default
    if attribute.type != INT:
        raise InvalidSlice(f"attribute {name} must be an integer")
    return attribute.as_int()


def read_string(node: NodeView, name: str) -> str:
    """Return the text of an attribute; an empty one if it is left out.

    Raises:
        InvalidSlice: The attribute has another type.
        DynamicSlice: The attribute refers to an attribute of the function that the node is in.
    """
    attribute = _get_attribute(node, name)
    if attribute is None:
        return ""
    if attribute.type != STRING:
        raise InvalidSlice(f"attribute {name} must be a text")
    return attribute.as_string()


def _get_attribute(node: NodeView, name: str) -> AttributeView | None:
    attribute = node.attributes.get(name)
    if attribute is not None and attribute.ref_attr_name:
        raise DynamicSlice(
            f"attribute {name} is the function's attribute {attribute.ref_attr_name!r}, which each call sets for itself"
        )
    return attribute


def has_open_attribute(node: ir.Node) -> bool:
    """Return whether an attribute refers to an attribute of the node's function, which each call sets for itself."""
    return any(attribute.is_ref() for attribute in node.attributes.values())

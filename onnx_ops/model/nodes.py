"""Nodes of any view: their operators, their attributes, and the constants that they read.

Constants are initializers and outputs of Constant nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard, TypeVar, overload

from onnx_ops.model.cached_read import cached_read
from onnx_ops.model.domains import STANDARD_DOMAINS, STRIDED_SLICE_DOMAIN
from onnx_ops.model.views import (
    FLOAT,
    FLOATS,
    INT,
    INTS,
    STRING,
    TENSOR,
    AttributeView,
    NodeView,
    OperatorView,
    ShapeView,
    Sizes,
    TensorView,
    ValueView,
    sizes_of_shape,
    static_sizes,
)
from sliceport.errors import DynamicSlice, InvalidSlice

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_ops.model.views import Array

Node = TypeVar("Node", bound=NodeView)
SLICING = ("Slice", "Split")
STRIDED_SLICE_VERSION = 1
_CONSTANTS = {"value": TENSOR, "value_int": INT, "value_ints": INTS, "value_float": FLOAT, "value_floats": FLOATS}
"""The type of each attribute of Constant that is read."""
MATMULS = {"MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3)}
"""The operators that multiply matrices, and the indices of the two tensors among the inputs of each."""
RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)
"""Operators that draw random numbers. No pass removes such a node: this would change the numbers of the others."""
LARGE_BYTES = 8192
"""A limit in bytes. Larger initializers are weights: inference uses only their type and shape."""
MAX_AXES = 64
"""The most axes that a NumPy array can have."""
CONTESTED = "sliceport.contested"
"""Key in the `meta` of a node for the defect that makes it contested.

Inference sets it, because the defect may show only when inferred constants are known.
"""
ORIGIN = "sliceport.origin"
"""Key in the `meta` of a node for an object that the node shares with the nodes that replace it."""
USED = "sliceport.used"
"""Key in the `meta` of a node for the index of an output that was read when the node was last examined."""
MISSING = "sliceport.missing"
"""Key in the `meta` of a value that was a constant whose data cannot be read. It maps to the reason."""
SPLIT_INPUT_OPSET = 13
"""The operator set since which Split has the part sizes as an input. Split-1 has this input, too."""
SLICE_INPUTS_OPSET = 10
"""The first operator set whose Slice has its parameters as inputs, and the first with steps."""
NUM_OUTPUTS_OPSET = 18
"""The first operator set whose Split has the attribute num_outputs."""
_INPUT_COUNTS = {
    "Slice": (1, 5),
    "Split": (1, 2),
    "Gather": (2, 2),
    "Concat": (1, 2**31),  # any number
    "Squeeze": (1, 2),
    "Unsqueeze": (1, 2),
    "Reshape": (1, 2),
    "Expand": (2, 2),
    "Constant": (0, 0),
    "Where": (3, 3),
    "MatMul": (2, 2),
    "MatMulInteger": (2, 4),
    "QLinearMatMul": (8, 8),
    "ConvTranspose": (2, 3),
    "Einsum": (1, 2**31),
    **dict.fromkeys("Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Or Sub Xor".split(), (2, 2)),  # noqa: SIM905
}
"""The least and the greatest number of inputs in any version of an operator. Other operators count as having one."""


def is_slicing(node: OperatorView) -> bool:
    """Return whether the node is a Slice, a Split or an `ov_ext::StridedSlice`."""
    return is_standard(node, *SLICING) or is_strided_slice(node)


def is_strided_slice(node: OperatorView | None) -> bool:
    """Return whether the node is an `ov_ext::StridedSlice`."""
    return node is not None and node.op_type == "StridedSlice" and node.domain == STRIDED_SLICE_DOMAIN


def is_standard(node: OperatorView | None, *op_types: str) -> bool:
    """Return whether the node is one of these standard operators."""
    return node is not None and node.domain in STANDARD_DOMAINS and node.op_type in op_types


def is_valid_operator(node: Node | None, *op_types: str) -> TypeGuard[Node]:
    """Return whether the node is one of these standard operators with a valid arity."""
    return node is not None and is_standard(node, *op_types) and has_valid_arity(node)  # mypy needs the test for None


def has_valid_arity(node: NodeView) -> bool:
    """Return whether a standard node has as many inputs and outputs as some version of its operator allows.

    The first input must not be left out. All operators but those in `_INPUT_COUNTS` count as having one input, and all
    but Split count as having one output. So the result is False for valid nodes of some operators.
    """
    fewest_inputs, most_inputs = _INPUT_COUNTS.get(node.op_type, (1, 1))
    input_count, output_count = len(node.inputs), len(node.outputs)
    has_first_input = node.op_type == "Constant" or (input_count > 0 and node.inputs[0] is not None)
    is_output_count_valid = output_count == 1 or (node.op_type == "Split" and output_count > 0)
    return fewest_inputs <= input_count <= most_inputs and has_first_input and is_output_count_valid


def node_name(node: NodeView) -> str:
    """Return the name of a node, or else of its first named output, or else an empty string."""
    return node.name or next((output.name for output in node.outputs if output.name), "") or ""


def find_computing_node(value: ValueView) -> NodeView | None:
    """Return the node that computes a value, or None. Cast, Identity, Squeeze and Unsqueeze are skipped."""
    node = value.producer()
    while is_valid_operator(node, "Cast", "Identity", "Squeeze", "Unsqueeze") and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node


@overload
def constant(value: ir.Value) -> ir.TensorProtocol | None: ...
@overload
def constant(value: ValueView) -> TensorView | None: ...
def constant(value: ValueView) -> TensorView | None:
    """Return the tensor of a constant, without reading its data. Return None for any other value.

    A constant is an initializer, the output of a Constant, or a value with elements from `ModelView.set_constant`.
    Return None for a Constant of strings in `value_string` or `value_strings`, and for one that refers to an attribute
    of a function.
    For onnx-ir models, call this function inside `without_defaults`, because the initializer of an input is a default.
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
    """Return the value of a Constant's attribute as a tensor."""
    value = attribute.value
    if isinstance(value, int | float | Sequence):  # onnx-ir has Python numbers for all attributes but `value`
        import onnx_ir as ir

        dtype = ir.DataType.INT64 if attribute.type in (INT, INTS) else ir.DataType.FLOAT
        if not isinstance(value, Sequence):
            return ir.tensor(value, dtype=dtype)
        # Later reads of the list are cached by the identity of the tensor, so return the same tensor.
        return cached_read(attribute, "tensor", lambda: ir.tensor(list(value), dtype=dtype))
    tensor: TensorView = value
    return tensor


def read_elements(value: ValueView, max_count: int) -> Array | None:
    """Return the elements of a constant. Return None for other values, unreadable data, or more than `max_count`."""
    tensor = constant(value)
    if tensor is None or tensor.size > max_count:
        return None
    try:
        return tensor.numpy()
    except Exception:  # onnx-ir has several classes of errors for data that it cannot read
        return None


def shape_of(value: ValueView) -> ShapeView | None:
    """Return the shape of a value, or the shape of its initializer if the value declares no shape."""
    if value.shape is None and value.const_value is not None:
        return value.const_value.shape
    return value.shape


def sizes_of(value: ValueView) -> Sizes | None:
    """Return the sizes of a value, None for each open one; None if its rank is open."""
    shape = shape_of(value)
    return None if shape is None else sizes_of_shape(shape)


def known_data_shape(node: NodeView) -> tuple[int, ...] | None:
    """Return the shape of the node's first input. Return None unless every size is known."""
    data = node.inputs[0] if node.inputs else None
    return None if data is None else static_sizes(shape_of(data))


def read_ints(node: NodeView, name: str) -> tuple[int, ...] | None:
    """Return the integers of an attribute; None if the attribute is left out.

    Raises:
        InvalidSlice, DynamicSlice: The attribute has another type, or refers to an attribute of the node's function.
    """
    attribute = _read_attribute(node, name, INTS, "a list of integers")
    return None if attribute is None else tuple(attribute.as_ints())


@overload
def read_int(node: NodeView, name: str, default: int) -> int: ...
@overload
def read_int(node: NodeView, name: str, default: None) -> int | None: ...
def read_int(node: NodeView, name: str, default: int | None) -> int | None:
    """Return the integer of an attribute; `default` if the attribute is left out.

    Raises:
        InvalidSlice, DynamicSlice: The attribute has another type, or refers to an attribute of the node's function.
    """
    attribute = _read_attribute(node, name, INT, "an integer")
    return default if attribute is None else attribute.as_int()


def read_string(node: NodeView, name: str) -> str:
    """Return the text of an attribute; an empty text if the attribute is left out.

    Raises:
        InvalidSlice, DynamicSlice: See `read_int`; or the text is not UTF-8.
    """
    attribute = _read_attribute(node, name, STRING, "a text")
    try:
        return "" if attribute is None else attribute.as_string()
    except (UnicodeDecodeError, TypeError):  # onnx-ir raises a TypeError
        raise InvalidSlice(f"attribute {name} must be UTF-8") from None


def _read_attribute(node: NodeView, name: str, kind: int, description: str) -> AttributeView | None:
    """Return an attribute; None if it is left out. `kind` is its type, and `description` names the type in messages.

    Raises:
        InvalidSlice: The attribute has another type.
        DynamicSlice: The attribute refers to an attribute of the node's function.
    """
    attribute = node.attributes.get(name)
    if attribute is None:
        return None
    if attribute.ref_attr_name:
        raise DynamicSlice(
            f"attribute {name} is the function's attribute {attribute.ref_attr_name!r}, which each call sets for itself"
        )
    if attribute.type != kind:
        raise InvalidSlice(f"attribute {name} must be {description}")
    return attribute

"""Shapes, constants and bounds of values that are known before an OpenVINO model runs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from openvino import opset1, opset8
from openvino.op.util import InvariantInputDescription

from ov_ext.operators.inference import Bounds
from sliceport.errors import InvalidSlice
from sliceport.slicing.axis import INT64_MAX, INT64_MIN

Array = npt.NDArray[Any]

_INTEGRAL = frozenset({"i4", "i8", "i16", "i32", "i64", "u4", "u8", "u16", "u32", "u64"})
"""Element types that indices can have."""
_INT32_MAX, _INT32_MIN = 2**31 - 1, -(2**31)


class _FarIndex(int):
    """INT64_MAX or INT64_MIN, printed as the 32-bit integer that stood for it."""

    def __repr__(self) -> str:
        return str(_INT32_MAX if self > 0 else _INT32_MIN)


_WIDENED: dict[int, int] = {_INT32_MAX: _FarIndex(INT64_MAX), _INT32_MIN: _FarIndex(INT64_MIN)}
"""The values of the two 32-bit integers that mean "as far as possible"; see `to_index_list`."""
_MAX_ELEMENTS = 1024
"""Limit of the elements of a value whose bounds are evaluated; shape arithmetic has fewer."""
_NOT_MONOTONIC = frozenset({"FloorMod", "SquaredDifference"})
_NOT_MONOTONIC_BELOW_0 = frozenset({"Abs", "Mod", "Power", "ReduceProd"})
"""Operators that are monotonic if no number is negative; see `_may_have_wrong_bounds`."""
_NARROW = frozenset({"boolean", "i8", "u8"})
"""Element types that hold only some of the sizes of axes."""
_BODIES: dict[str, list[tuple[int, ...]]] = {"If": [(0,), (1,)], "Loop": [()], "TensorIterator": [()]}
"""The arguments with which a node of each operator returns each of its bodies, and the inputs of the body."""


def find_data_dependent(nodes: Iterable[ov.Node]) -> set[int]:
    """Return the instance numbers of the nodes that depend on the data of a Parameter: OpenVINO has no bounds for them.

    `nodes` are all nodes of a model in topological order, each before those of its bodies. A body's Parameter depends
    on data unless its value is the same in each iteration and does not.
    """
    numbers: set[int] = set()
    fixed: set[int] = set()  # Parameters of bodies that do not depend on data.
    for node in nodes:
        kind, number = node.get_type_name(), node.get_instance_id()
        sources = [source.get_node().get_instance_id() for source in node.input_values()]
        # A node without inputs is a Constant or a Parameter.
        reads_data = kind not in ("Constant", "ShapeOf") and (not sources or not numbers.isdisjoint(sources))
        if reads_data and number not in fixed:
            numbers.add(number)
        for body in _BODIES.get(kind, []):
            parameters = node.get_function(*body).get_parameters()
            for port in node.get_input_descriptions(*body):
                if isinstance(port, InvariantInputDescription) and sources[port.input_index] not in numbers:
                    fixed.add(parameters[port.body_parameter_index].get_instance_id())
    return numbers


def as_constant(array: Array) -> ov.Node:
    """Return a constant of an array, which may be empty."""
    return ov.op.Constant(array) if array.size else ov.op.Constant(ov.Type(array.dtype), ov.Shape(array.shape), [])


def as_indices(values: list[int]) -> ov.Node:
    """Return a constant of indices, of type i32 if all of them fit, or else of type i64.

    The greatest and least 32-bit integers stand for INT64_MAX and INT64_MIN, not for themselves; see `to_index_list`.
    """
    to_narrow = {far: value for value, far in _WIDENED.items()}
    if all(value in to_narrow or _INT32_MIN < value < _INT32_MAX for value in values):
        return as_constant(np.array([to_narrow.get(value, value) for value in values], np.int32))
    return as_constant(np.array(values, np.int64))


def as_output(value: Any, index: int, label: str) -> ov.Output:
    """Turn `value` into an output to which an input of a node can be connected.

    `value` is an output, a node with one output, or an array or numbers to make a constant of. Error messages refer to
    `value` as input number `index` of `label`.

    Raises:
        InvalidSlice: `value` is of another kind.
    """
    if isinstance(value, ov.Output):
        return value
    if isinstance(value, ov.Node):
        if (count := value.get_output_size()) != 1:
            raise InvalidSlice(f"{label}: input {index} is a node of {count} outputs; pass one of its outputs.")
        return value.output(0)
    try:
        array = np.asarray(value)
        # NumPy gives the type float64 to []. Input 0 is the data, which may have this type.
        is_empty_list = index > 0 and not array.size and array.dtype == np.float64
        return as_constant(array.astype(np.int64) if is_empty_list else array).output(0)
    except (RuntimeError, TypeError, ValueError):
        raise InvalidSlice(f"{label}: input {index} is neither a node, an output nor an array.") from None


def ones_like(source: ov.Output) -> ov.Output:
    """Return a list of ones with the length and the element type of `source`, a list of indices.

    If the type is not known, the ones are of type i64. The result is a constant if the length is known.
    """
    element = source.get_element_type() if source.get_element_type().is_static() else ov.Type.i64
    length = list_length(source)
    if length is not None:
        return as_constant(np.ones(length, element.to_dtype())).output(0)
    return opset8.broadcast(ov.op.Constant(element, ov.Shape([]), [1]), opset8.shape_of(source)).output(0)


def bounds_of(dim: ov.Dimension) -> Bounds:
    """Return the bounds of a dimension. INT64_MAX stands for no upper bound."""
    high = dim.get_max_length()
    return Bounds(dim.get_min_length(), INT64_MAX if high < 0 else high)


def dimension(bounds: Bounds) -> ov.Dimension:
    """Return OpenVINO's dimension with these bounds. INT64_MAX stands for no upper bound."""
    return ov.Dimension(bounds.low, -1 if bounds.high == INT64_MAX else bounds.high)


def is_integral(element: ov.Type) -> bool:
    """Return whether `element` is a type that indices can have."""
    return element.get_type_name() in _INTEGRAL


def list_length(source: ov.Output) -> int | None:
    """Return the number of elements of a list (a value of rank 1), or None if the rank or the number is unknown."""
    shape = source.get_partial_shape()
    if shape.rank.is_dynamic or shape.rank.get_length() != 1 or shape[0].is_dynamic:
        return None
    return int(shape[0].get_length())


def list_bounds(source: ov.Output, data_dependent: Container[int] = ()) -> list[Bounds] | None:
    """Return the bounds of each element of a list of integers, or None if they are not known; see `element_bounds`."""
    node = source.get_node()
    kind = node.get_type_name()
    if kind == "Constant" and is_integral(source.get_element_type()):  # of any rank
        return [Bounds(value, value) for value in to_index_list(read_integers(node))]
    if kind in ("Constant", "Parameter"):  # not integers, or not known before the model runs
        return None
    bounds = element_bounds(source, data_dependent)
    if bounds is None:
        return None
    pairs = zip(*map(to_index_list, bounds), strict=True)
    # OpenVINO writes 0 and the greatest value for an element without bounds, even if it may be negative.
    may_be_negative = _may_be_negative(_list_sources(node) or ())
    return [Bounds(INT64_MIN if may_be_negative and pair == (0, INT64_MAX) else pair[0], pair[1]) for pair in pairs]


def exact_elements(bounds: Sequence[Bounds] | None) -> tuple[int, ...] | None:
    """Return the elements of a list with these bounds, or None if an element may have several values."""
    if bounds is None or not all(bound.is_exact for bound in bounds):
        return None
    return tuple([bound.low for bound in bounds])


def read_integers(source: ov.Tensor | ov.Node) -> Array:
    """Return the elements of a tensor or Constant of integers. Elements of 4 bits are unpacked to int8."""
    if source.get_element_type().bitwidth >= 8:
        return np.asarray(source.data)
    packed = source.data.reshape(-1).view(np.uint8)
    # The first element of a byte is in its low bits.
    values = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[: prod(source.shape)].astype(np.int8)
    if source.get_element_type() == ov.Type.i4:
        values = (values ^ 8) - 8  # extends the sign: 8 to 15 stand for -8 to -1
    return values.reshape(tuple(source.shape))


def to_index_list(values: Array) -> list[int]:
    """Return the elements of a list of indices.

    32-bit elements INT32_MIN and INT32_MAX mean "as far as possible" and become INT64_MIN and INT64_MAX. The CPU plugin
    narrows larger constants to these two integers, and OpenVINO writes them for unbounded 32-bit bounds.
    """
    indices: list[int] = values.reshape(-1).tolist()
    if values.dtype == np.int32 and (_INT32_MAX in indices or _INT32_MIN in indices):
        return [_WIDENED.get(value, value) for value in indices]
    return indices


def element_bounds(source: ov.Output, data_dependent: Container[int] = ()) -> tuple[Array, Array] | None:
    """Return the bounds (least and greatest value) of each element of a list of integers, as evaluated by OpenVINO.

    OpenVINO also stores the bounds in the tensors of the list and of the values from which the list is computed.

    The result is None if the bounds are not known, if the list is empty or has more than `_MAX_ELEMENTS` elements, if
    elements have 4 bits, or if OpenVINO may evaluate wrong bounds for an operator from which the list is computed.
    For `data_dependent`, see `find_data_dependent`.
    """
    element = source.get_element_type()
    length = list_length(source)
    # OpenVINO evaluates hardly any operator on elements of 4 bits.
    if length is None or not 0 < length <= _MAX_ELEMENTS or not is_integral(element) or element.bitwidth < 8:
        return None
    node = source.get_node()
    sources = None if node.get_instance_id() in data_dependent else _list_sources(node)
    # OpenVINO replaces a value by its bounds if they are equal, so wrong bounds must not be stored.
    if sources is None or _may_have_wrong_bounds(sources):
        return None
    _store_bounds(source)
    tensor = source.get_tensor()
    try:
        lower, upper = tensor.get_lower_value().data, tensor.get_upper_value().data
    except RuntimeError:  # OpenVINO found no bounds.
        return None
    return (lower, upper) if lower.shape == upper.shape == (length,) else None


def _list_sources(last: ov.Node) -> list[ov.Node] | None:
    """Return `last` and the nodes that it is computed from. The inputs of a ShapeOf are left out.

    Return None if one of these nodes is not known before the model runs, such as a Parameter: OpenVINO then has no
    bounds. If many indices depend on data, calling this for each of them takes quadratic time, which
    `find_data_dependent` avoids.
    """
    nodes: dict[int, ov.Node] = {}
    pending = [last]
    while pending:
        node = pending.pop()
        key = node.get_instance_id()
        if key not in nodes:
            nodes[key] = node
            if node.get_type_name() not in ("Constant", "ShapeOf"):
                sources = node.input_values()
                if not sources:
                    return None
                # The first input comes first, because it usually leads to a Parameter soon, which ends the search.
                pending += [value.get_node() for value in reversed(sources)]
    return list(nodes.values())


def _may_have_wrong_bounds(nodes: Sequence[ov.Node]) -> bool:
    """Return whether OpenVINO may evaluate wrong bounds for one of `nodes`, from which a value is computed.

    OpenVINO applies an operator to the bounds of its inputs, and takes the results for the bounds of its output. This
    is wrong if the operator is not monotonic or numbers wrap around.
    """
    may_be_negative = _may_be_negative(nodes)
    for node in nodes:
        kind, element = node.get_type_name(), node.get_output_element_type(0).get_type_name()
        # OpenVINO reads uninitialized memory for sums of 16-bit integers, so no node of 16 bits is trusted.
        if element in ("i16", "u16") or kind in _NOT_MONOTONIC or (may_be_negative and kind in _NOT_MONOTONIC_BELOW_0):
            return True
        # OpenVINO confuses the two bounds of a quotient if a number is negative, unless the divisor is a constant.
        if may_be_negative and kind == "Divide" and node.input_value(1).get_node().get_type_name() != "Constant":
            return True
        # Negative numbers wrap around in unsigned types.
        if element.startswith("u") and (kind == "Subtract" or (may_be_negative and kind == "Convert")):
            return True
        # A number may be too large for a narrow type. Boolean elements always fit.
        if kind == "Convert" and element in _NARROW and node.get_input_element_type(0) != ov.Type.boolean:
            return True
    return False


def _may_be_negative(nodes: Sequence[ov.Node]) -> bool:
    """Return whether a value that is computed from `nodes` may be negative.

    This is so if a node subtracts or negates, or is a constant with a negative number. A constant of strings, of
    elements smaller than a byte, or of too many elements is not read and counts as negative. Other nodes cannot add
    negative numbers: sizes are not negative, and a value that depends on the elements of a Parameter has no bounds.
    """
    for node in nodes:
        kind, element = node.get_type_name(), node.get_output_element_type(0)
        if kind in ("Subtract", "Negative"):
            return True
        if kind == "Constant":
            is_large = prod(node.get_output_shape(0)) > _MAX_ELEMENTS
            if is_large or element.bitwidth < 8 or element == ov.Type.string or bool(np.any(node.data < 0)):
                return True
    return False


def _store_bounds(source: ov.Output) -> None:
    """Make OpenVINO evaluate the bounds of a list of known length, and store the bounds in the tensor of the list.

    OpenVINO has no function for this, but building a StridedSlice on the list does it. The node is dropped.
    """
    count = source.get_partial_shape()[0].get_length()
    data = opset1.parameter([1] * count, np.float32)
    opset1.strided_slice(data, source, source, opset1.constant(np.ones(count, np.int64)), [0], [0])

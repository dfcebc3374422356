"""Choosing the operator that performs a strided copy at a feature level, and building its descriptor.

A split becomes one SPLIT. A change of layout alone becomes one ELEMENT_WISE_IDENTITY, if that operator can perform the
copy. Every other copy becomes one SLICE1, or one SLICE below feature level 2.1. If the operator does not accept the
type of the elements at the level, the elements are copied as another type with the same bits (`find_carriers`).
"""

from __future__ import annotations

from sliceport.directml.elements import ELEMENT_BITS, Carrier, find_carriers
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.operators import INT32_MAX, ElementWiseIdentity, Operator, Slice, Slice1, Split
from sliceport.directml.schema import ELEMENT_WISE_IDENTITY, SLICE, SLICE1, SPLIT, OperatorSchema, Support
from sliceport.directml.strided_copy import StridedCopy
from sliceport.directml.tensor import UINT32_MAX, BufferTensor
from sliceport.slicing import window

_INTEGER_OF_FLOAT = {"FLOAT": "UINT32", "FLOAT16": "UINT16", "DOUBLE": "UINT64"}
"""The types that replace float types in ELEMENT_WISE_IDENTITY, which may change the bits of a float NaN.

See "signalling NaNs" in `sliceport/defects/directml.toml`.
"""


class NotLoweredError(Exception):
    """The error for a copy that no operator can perform. `code` becomes the code of the node's `Refusal`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def choose_split(copy: StridedCopy, element: str, level: FeatureLevel) -> Operator:
    """Return the SPLIT for a copy with a split axis; `element` is the ONNX name of the element type.

    Raises:
        NotLoweredError: SPLIT cannot perform the copy at this level.
    """
    return _build_with_best_carrier(copy, element, level, SPLIT)


def choose_slice(copy: StridedCopy, element: str, level: FeatureLevel, *, selects_all: bool) -> Operator:
    """Return the operator for a copy to one output; `element` is the ONNX name of the element type.

    If `selects_all`, the output is the whole input, so that only the layout can differ.

    Raises:
        NotLoweredError: No operator can perform the copy at this level.
    """
    if selects_all:
        # ELEMENT_WISE_IDENTITY may change the bits of a float NaN, so floats are copied as integers.
        carried_type = _INTEGER_OF_FLOAT.get(element, element)
        try:
            return _build_with_best_carrier(copy, carried_type, level, ELEMENT_WISE_IDENTITY)
        except NotLoweredError:
            pass  # try a slice: at the lowest levels, SLICE accepts more data types
    if SLICE1.support(level):
        return _build_with_best_carrier(copy, element, level, SLICE1)
    if any(selected.step < 0 for selected in copy.selected[0]):
        raise NotLoweredError(
            "feature_level",
            f"a backward step needs DML_OPERATOR_SLICE1, which feature level {level} does not have; lower the model "
            f"for feature level 2.1 or higher",
        )
    return _build_with_best_carrier(copy, element, level, SLICE)


def _build_with_best_carrier(copy: StridedCopy, element: str, level: FeatureLevel, schema: OperatorSchema) -> Operator:
    """Return an operator of `schema` for a copy. The operator copies the elements as the first data type that fits.

    Raises:
        NotLoweredError: The operator does not exist at this level, the copy cannot move whole elements of any data type
            that the operator accepts, the copy exceeds a limit of the operator, or an output may overlap itself.
    """
    support = schema.support(level)
    if support is None:
        raise NotLoweredError("feature_level", f"{schema.type} does not exist at feature level {level}")
    for carrier in find_carriers(element, support.data_types):  # the element's own type first
        recast = copy.recast(carrier)
        if recast is not None:  # the copy moves whole elements of the carrier
            _check_limits(recast, level, schema, support)
            return _build_operator(recast, carrier, schema, support)
    raise NotLoweredError(
        "unaligned_type",
        f"{element} elements have {ELEMENT_BITS[element]} bits, and they cannot be moved as whole elements of a data "
        f"type that {schema.type} supports at feature level {level}",
    )


def _check_limits(copy: StridedCopy, level: FeatureLevel, schema: OperatorSchema, support: Support) -> None:
    """Raise NotLoweredError if the copy's steps or rank exceed the limits of the operator."""
    rank = len(copy.sizes)
    # The parts of a split all have steps of 1, so the first output stands for all outputs.
    step = max((abs(selected.step) for selected in copy.selected[0]), default=1)
    if step > INT32_MAX:
        raise NotLoweredError(
            "size_limit", f"its step of {step} elements is more than {schema.type} supports ({INT32_MAX})"
        )
    if rank > support.max_rank:
        raise NotLoweredError(
            "rank_limit",
            f"{rank} dimensions remain after coalescing, but {schema.type} supports at most {support.max_rank} at "
            f"feature level {level}",
        )


def _build_operator(copy: StridedCopy, carrier: Carrier, schema: OperatorSchema, support: Support) -> Operator:
    """Return the operator for a copy. Its tensors get leading dimensions of 1 if the operator needs a higher rank.

    Raises:
        NotLoweredError: A tensor or its buffer exceeds DirectML's limit, or an output may overlap itself.
    """
    # The copy of a single element has no axes, but a tensor needs a dimension.
    shapes = zip((copy.sizes, *copy.counts), (copy.input_strides, *copy.output_strides), strict=True)
    tensors = [BufferTensor.of(carrier.data_type, sizes or (1,), strides or None) for sizes, strides in shapes]
    for tensor in tensors:
        if not tensor.is_addressable:
            elements = max(tensor.element_count, tensor.physical_size)
            raise NotLoweredError(
                "size_limit",
                f"a tensor that has or spans {elements} {carrier.data_type.name} elements, in a buffer of "
                f"{tensor.total_tensor_size_in_bytes} bytes, exceeds DirectML's limit of {UINT32_MAX} elements",
            )
        if tensor is not tensors[0] and tensor.may_overlap:
            raise NotLoweredError("invalid", "the output's strides may put two elements at one address")
    rank = max(len(copy.sizes), support.min_rank, 1)
    input_tensor, *outputs = [tensor.padded_to(rank) for tensor in tensors]
    added_dims = rank - len(copy.sizes)
    if schema is SPLIT:
        assert copy.split_axis is not None
        return Split(input_tensor, len(outputs), tuple(outputs), copy.split_axis + added_dims)
    if schema is ELEMENT_WISE_IDENTITY:
        return ElementWiseIdentity(input_tensor, outputs[0])
    ranges = (range(1),) * added_dims + copy.selected[0]  # SLICE1 and SLICE have one output
    if schema is SLICE1:
        return Slice1(input_tensor, outputs[0], rank, *zip(*map(window, ranges), strict=True))
    forward_windows = ((each.start, len(each), each.step) for each in ranges)
    return Slice(input_tensor, outputs[0], rank, *zip(*forward_windows, strict=True))

"""Choosing the operator that performs a strided copy at a feature level, and building its descriptor.

A split becomes one SPLIT. A change of layout alone becomes one ELEMENT_WISE_IDENTITY, if that operator can perform the
copy. Every other copy becomes one SLICE1, or one SLICE below feature level 2.1. If the operator does not accept the
type of the elements at the level, the elements are copied as another type with the same bits (`find_carriers`).
"""

from __future__ import annotations

from collections.abc import Callable

from sliceport.directml.elements import ELEMENT_BITS, Carrier, find_carriers
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.operators import INT32_MAX, ElementWiseIdentity, Operator, Slice, Slice1, Split
from sliceport.directml.schema import SLICE, SLICE1, OperatorSchema, Support
from sliceport.directml.strided_copy import StridedCopy
from sliceport.directml.tensor import UINT32_MAX, BufferTensor
from sliceport.slicing import window

_INTEGER_OF_FLOAT = {"FLOAT": "UINT32", "FLOAT16": "UINT16", "DOUBLE": "UINT64"}
"""The types that replace float types in ELEMENT_WISE_IDENTITY, which may change the bits of a float NaN.

See "signalling NaNs" in `sliceport/defects/directml.toml`.
"""

_Build = Callable[[StridedCopy, BufferTensor, list[BufferTensor], int], Operator]
"""Builder of an operator from a copy, its padded input and outputs, and the number of dimensions that padding adds."""


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
    return _build_with_best_carrier(copy, element, level, Split.schema, _build_split)


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
            return _build_with_best_carrier(copy, carried_type, level, ElementWiseIdentity.schema, _build_identity)
        except NotLoweredError:
            pass  # try a slice: at the lowest levels, SLICE accepts more data types
    if SLICE1.support(level):
        return _build_with_best_carrier(copy, element, level, SLICE1, _build_slice1)
    if any(selected.step < 0 for selected in copy.selected[0]):
        raise NotLoweredError(
            "feature_level",
            f"a backward step needs DML_OPERATOR_SLICE1, which feature level {level} does not have; lower the model "
            f"for feature level 2.1 or higher",
        )
    return _build_with_best_carrier(copy, element, level, SLICE, _build_slice)


def _build_with_best_carrier(
    copy: StridedCopy, element: str, level: FeatureLevel, schema: OperatorSchema, build: _Build
) -> Operator:
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
            return _build_operator(recast, carrier, support, build)
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


def _build_operator(copy: StridedCopy, carrier: Carrier, support: Support, build: _Build) -> Operator:
    """Return the operator for a copy. Its tensors get leading dimensions of 1 if the operator needs a higher rank.

    Raises:
        NotLoweredError: A tensor or its buffer exceeds DirectML's limit, or an output may overlap itself.
    """
    # The copy of a single element has no axes, but a tensor needs a dimension.
    input_tensor = BufferTensor.of(carrier.data_type, copy.sizes or (1,), copy.input_strides or None)
    outputs = [
        BufferTensor.of(carrier.data_type, counts or (1,), strides or None)
        for counts, strides in zip(copy.counts, copy.output_strides, strict=True)
    ]
    for tensor in (input_tensor, *outputs):
        if not tensor.is_addressable:
            elements = max(tensor.element_count, tensor.physical_size)
            raise NotLoweredError(
                "size_limit",
                f"a tensor that has or spans {elements} {carrier.data_type.name} elements, in a buffer of "
                f"{tensor.total_tensor_size_in_bytes} bytes, exceeds DirectML's limit of {UINT32_MAX} elements",
            )
        if tensor is not input_tensor and tensor.may_overlap:
            raise NotLoweredError("invalid", "the output's strides may put two elements at one address")
    rank = max(len(copy.sizes), support.min_rank, 1)
    padded = [tensor.padded_to(rank) for tensor in outputs]
    return build(copy, input_tensor.padded_to(rank), padded, rank - len(copy.sizes))


def _build_slice1(
    copy: StridedCopy, input_tensor: BufferTensor, outputs: list[BufferTensor], added_dims: int
) -> Slice1:
    ranges = (range(1),) * added_dims + copy.selected[0]  # SLICE1 has one output
    offsets, sizes, strides = zip(*map(window, ranges), strict=True)
    return Slice1(input_tensor, outputs[0], len(ranges), offsets, sizes, strides)


def _build_slice(copy: StridedCopy, input_tensor: BufferTensor, outputs: list[BufferTensor], added_dims: int) -> Slice:
    ranges = (range(1),) * added_dims + copy.selected[0]  # SLICE has one output, and all steps are positive
    offsets, sizes, strides = zip(*((each.start, len(each), each.step) for each in ranges), strict=True)
    return Slice(input_tensor, outputs[0], len(ranges), offsets, sizes, strides)


def _build_split(copy: StridedCopy, input_tensor: BufferTensor, outputs: list[BufferTensor], added_dims: int) -> Split:
    assert copy.split_axis is not None
    return Split(input_tensor, len(outputs), tuple(outputs), copy.split_axis + added_dims)


def _build_identity(_: StridedCopy, input_tensor: BufferTensor, outputs: list[BufferTensor], __: int) -> Operator:
    return ElementWiseIdentity(input_tensor, outputs[0])

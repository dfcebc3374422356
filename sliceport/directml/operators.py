"""The operators as values: one frozen dataclass per struct, its JSON form, and the rules of its documentation page.

An operator can hold any numbers; `check` raises if they break a rule. `BufferTensor.check` has the rules about a single
tensor, and `_check_numbers` of each operator has the rules that relate its numbers and tensors to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sliceport.directml import schema
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.schema import OperatorSchema
from sliceport.directml.tensor import BufferTensor
from sliceport.errors import InvalidDescriptor

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)


class _OneOutput:
    """Base of the operators that write one tensor."""

    output_tensor: BufferTensor

    @property
    def outputs(self) -> tuple[BufferTensor, ...]:
        """The tensors written."""
        return (self.output_tensor,)


@dataclass(frozen=True)
class Slice1(_OneOutput):
    """DML_SLICE1_OPERATOR_DESC: a strided window of the input, forward or backward (from feature level 2.1 on)."""

    schema: ClassVar[OperatorSchema] = schema.SLICE1
    input_tensor: BufferTensor
    output_tensor: BufferTensor
    dimension_count: int
    input_window_offsets: tuple[int, ...]
    input_window_sizes: tuple[int, ...]
    input_window_strides: tuple[int, ...]

    def _check_numbers(self) -> None:
        """Raise InvalidDescriptor unless each dimension has a valid window with enough elements for the output."""
        _check_arrays(
            self.dimension_count,
            self.input_tensor.rank,
            InputWindowOffsets=self.input_window_offsets,
            InputWindowSizes=self.input_window_sizes,
            InputWindowStrides=self.input_window_strides,
        )
        windows = zip(self.input_window_offsets, self.input_window_sizes, self.input_window_strides, strict=True)
        for dim, (offset, size, stride) in enumerate(windows):
            _check_window(dim, offset, offset + size, self.input_tensor.sizes[dim], size)
            if stride == 0 or not INT32_MIN <= stride <= INT32_MAX:
                raise InvalidDescriptor(f"InputWindowStrides[{dim}] must be a non-zero 32-bit integer, got {stride}")
            reachable = 1 + (size - 1) // abs(stride)
            if self.output_tensor.sizes[dim] > reachable:  # the documentation allows a smaller output
                raise InvalidDescriptor(
                    f"OutputTensor.Sizes[{dim}] is {self.output_tensor.sizes[dim]}, but a window of {size} walked in "
                    f"steps of {abs(stride)} has {reachable} elements"
                )


@dataclass(frozen=True)
class Slice(_OneOutput):
    """DML_SLICE_OPERATOR_DESC: the older slice, forward only. `sizes` has the output sizes, not the window sizes."""

    schema: ClassVar[OperatorSchema] = schema.SLICE
    input_tensor: BufferTensor
    output_tensor: BufferTensor
    dimension_count: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def _check_numbers(self) -> None:
        """Raise InvalidDescriptor unless the elements to copy lie within the input and fill the output."""
        _check_arrays(
            self.dimension_count, self.input_tensor.rank, Offsets=self.offsets, Sizes=self.sizes, Strides=self.strides
        )
        for dim, (offset, size, stride) in enumerate(zip(self.offsets, self.sizes, self.strides, strict=True)):
            if not 1 <= stride <= INT32_MAX:  # the field is a UINT, but DirectML.dll refuses more than an INT holds
                raise InvalidDescriptor(f"Strides[{dim}] must be between 1 and {INT32_MAX}, got {stride}")
            _check_window(dim, offset, offset + (size - 1) * stride + 1, self.input_tensor.sizes[dim], size)
            if size != self.output_tensor.sizes[dim]:
                raise InvalidDescriptor(
                    f"Sizes[{dim}] must equal OutputTensor.Sizes[{dim}], got {size} and {self.output_tensor.sizes[dim]}"
                )


@dataclass(frozen=True)
class Split:
    """DML_SPLIT_OPERATOR_DESC: consecutive parts of one axis, none of them empty."""

    schema: ClassVar[OperatorSchema] = schema.SPLIT
    input_tensor: BufferTensor
    output_count: int
    output_tensors: tuple[BufferTensor, ...]
    axis: int

    @property
    def outputs(self) -> tuple[BufferTensor, ...]:
        """The tensors written."""
        return self.output_tensors

    def _check_numbers(self) -> None:
        """Raise InvalidDescriptor unless OutputCount and Axis are valid and the outputs' sizes fit the input's."""
        if self.output_count < 1 or self.output_count != len(self.output_tensors):
            raise InvalidDescriptor(
                f"OutputCount must be at least 1 and equal the number of OutputTensors, got {self.output_count} and "
                f"{len(self.output_tensors)}"
            )
        if not 0 <= self.axis < self.input_tensor.rank:
            raise InvalidDescriptor(f"Axis must be between 0 and {self.input_tensor.rank - 1}, got {self.axis}")
        for dim, size in enumerate(self.input_tensor.sizes):
            sizes = [output.sizes[dim] for output in self.output_tensors]
            if dim == self.axis and sum(sizes) != size:
                raise InvalidDescriptor(
                    f"the outputs' sizes on axis {dim} must sum to the input's size {size}, got {sum(sizes)}"
                )
            if dim != self.axis and any(output_size != size for output_size in sizes):
                raise InvalidDescriptor(
                    f"the outputs' sizes on axis {dim} must equal the input's size {size}, got {sizes}"
                )


@dataclass(frozen=True)
class ElementWiseIdentity(_OneOutput):
    """DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC without scale and bias: a copy that may change the memory layout."""

    schema: ClassVar[OperatorSchema] = schema.ELEMENT_WISE_IDENTITY
    input_tensor: BufferTensor
    output_tensor: BufferTensor
    scale_bias: None = None

    def _check_numbers(self) -> None:
        """Raise InvalidDescriptor unless input and output have equal sizes."""
        if self.output_tensor.sizes != self.input_tensor.sizes:
            raise InvalidDescriptor(
                f"OutputTensor.Sizes must equal InputTensor.Sizes, got {list(self.output_tensor.sizes)} and "
                f"{list(self.input_tensor.sizes)}"
            )


Operator = Slice1 | Slice | Split | ElementWiseIdentity


def check(operator: Operator, level: FeatureLevel = LATEST) -> None:
    """Check an operator against the rules of its documentation page, as DirectML.dll applies them at a feature level.

    Raises:
        InvalidDescriptor: A rule is broken; the message names the operator and the rule.
    """
    try:
        support = operator.schema.support(level)
        if support is None:
            raise InvalidDescriptor(f"the operator does not exist at feature level {level}")
        tensors = (operator.input_tensor, *operator.outputs)
        for i, tensor in enumerate(tensors):  # the first is the input
            output_name = f"OutputTensors[{i - 1}]" if isinstance(operator, Split) else "OutputTensor"
            name = "InputTensor" if i == 0 else output_name
            tensor.check(name)
            if i and tensor.may_overlap:
                raise InvalidDescriptor(f"{name}: elements of an output must not share an address")
            if i and tensor.flags:
                raise InvalidDescriptor(f"{name}: an output must not be OWNED_BY_DML")
            if tensor.rank != tensors[0].rank or tensor.data_type != tensors[0].data_type:
                raise InvalidDescriptor(
                    f"{name} must have InputTensor's data type and dimension count, got {tensor.data_type.name} and "
                    f"{tensor.rank} instead of {tensors[0].data_type.name} and {tensors[0].rank}"
                )
        if not support.min_rank <= tensors[0].rank <= support.max_rank:
            raise InvalidDescriptor(
                f"feature level {level} supports {support.min_rank} to {support.max_rank} dimensions, "
                f"got {tensors[0].rank}"
            )
        if tensors[0].data_type not in support.data_types:
            raise InvalidDescriptor(f"feature level {level} does not support {tensors[0].data_type.name}")
        operator._check_numbers()
    except InvalidDescriptor as error:
        raise InvalidDescriptor(f"{operator.schema.type}: {error}.") from None


def _check_arrays(dimension_count: int, rank: int, **arrays: Sequence[int]) -> None:
    """Raise InvalidDescriptor unless DimensionCount and the length of each array equal the rank of the tensors."""
    if dimension_count != rank:
        raise InvalidDescriptor(f"DimensionCount must be the rank of the tensors, {rank}, got {dimension_count}")
    for name, values in arrays.items():
        if len(values) != rank:
            raise InvalidDescriptor(f"{name} must have DimensionCount={rank} values, got {len(values)}")


def _check_window(dim: int, first: int, end: int, input_size: int, size: int) -> None:
    """Raise InvalidDescriptor unless the window from `first` to `end` has elements and lies within the input."""
    # `size` is from the descriptor: the extent of the window in SLICE1, and the number of selected elements in SLICE.
    if size < 1:
        raise InvalidDescriptor(f"the window must not be empty, got size {size} in dimension {dim}")
    if first < 0 or end > input_size:
        raise InvalidDescriptor(
            f"the window [{first}, {end}) in dimension {dim} is not within the input's {input_size} elements"
        )


def tensor_to_json(tensor: BufferTensor) -> dict[str, Any]:
    """Convert a tensor to JSON values with DirectML.h's field names. Unset strides, alignment and flags are left out.

    >>> from sliceport.directml.tensor import DataType
    >>> tensor_to_json(BufferTensor.of(DataType.FLOAT32, (2, 3)))
    {'DataType': 'FLOAT32', 'Sizes': [2, 3], 'TotalTensorSizeInBytes': 24}
    """
    fields: dict[str, Any] = {"DataType": tensor.data_type.name, "Sizes": list(tensor.sizes)}
    if tensor.strides is not None:
        fields["Strides"] = list(tensor.strides)
    fields["TotalTensorSizeInBytes"] = tensor.total_tensor_size_in_bytes
    if tensor.guaranteed_base_offset_alignment:
        fields["GuaranteedBaseOffsetAlignment"] = tensor.guaranteed_base_offset_alignment
    if tensor.flags:
        fields["Flags"] = "OWNED_BY_DML"  # DirectML has no other flag
    return fields


def to_json(operator: Operator) -> dict[str, Any]:
    """Convert an operator to `{"type": "DML_OPERATOR_...", "desc": {...}}`. Null pointers are left out of `desc`."""
    desc: dict[str, Any] = {}
    for field in operator.schema.fields:
        value = getattr(operator, field.attribute)
        if field.kind in ("input", "output"):
            desc[field.name] = tensor_to_json(value)
        elif field.kind == "outputs":
            desc[field.name] = [tensor_to_json(tensor) for tensor in value]
        elif field.kind != "null":
            desc[field.name] = value if field.kind == "uint" else list(value)
    return {"type": operator.schema.type, "desc": desc}

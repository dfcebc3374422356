"""The operators as values: one frozen dataclass per struct, its JSON form, and the rules of its documentation page.

The attributes of a class are the members of its struct in DirectML.h, in the same order, and their types are those of
the members: see `struct_fields`.

An operator can hold any numbers; `check` raises if they break a rule. `BufferTensor.list_problems` has the rules about
a single tensor, and `_list_problems` of each operator has the rules that relate its numbers and tensors to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from sliceport.directml import schema
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.schema import OperatorSchema
from sliceport.directml.tensor import BufferTensor
from sliceport.errors import InvalidDescriptor

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
Ints = tuple[int, ...]
"""An array of INT. All other arrays of numbers are arrays of UINT."""


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
    input_window_strides: Ints

    def _list_problems(self) -> Iterator[str]:
        """Yield a problem unless each dimension has a valid window with enough elements for the output."""
        yield from _list_array_problems(
            self.dimension_count,
            self.input_tensor.rank,
            InputWindowOffsets=self.input_window_offsets,
            InputWindowSizes=self.input_window_sizes,
            InputWindowStrides=self.input_window_strides,
        )
        windows = zip(self.input_window_offsets, self.input_window_sizes, self.input_window_strides, strict=True)
        for dim, (offset, size, stride) in enumerate(windows):
            yield from _list_window_problems(dim, offset, offset + size, self.input_tensor.sizes[dim], size)
            if stride == 0 or not INT32_MIN <= stride <= INT32_MAX:
                yield f"InputWindowStrides[{dim}] must be a non-zero 32-bit integer, got {stride}"
            reachable = 1 + (size - 1) // abs(stride)
            if self.output_tensor.sizes[dim] > reachable:  # the documentation allows a smaller output
                window = f"a window of {size} walked in steps of {abs(stride)} has {reachable} elements"
                yield f"OutputTensor.Sizes[{dim}] is {self.output_tensor.sizes[dim]}, but {window}"


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

    def _list_problems(self) -> Iterator[str]:
        """Yield a problem unless the elements to copy lie within the input and fill the output."""
        yield from _list_array_problems(
            self.dimension_count, self.input_tensor.rank, Offsets=self.offsets, Sizes=self.sizes, Strides=self.strides
        )
        for dim, (offset, size, stride) in enumerate(zip(self.offsets, self.sizes, self.strides, strict=True)):
            if not 1 <= stride <= INT32_MAX:  # the field is a UINT, but DirectML.dll refuses more than an INT holds
                yield f"Strides[{dim}] must be between 1 and {INT32_MAX}, got {stride}"
            end = offset + (size - 1) * stride + 1
            yield from _list_window_problems(dim, offset, end, self.input_tensor.sizes[dim], size)
            output_size = self.output_tensor.sizes[dim]
            if size != output_size:
                yield f"Sizes[{dim}] must equal OutputTensor.Sizes[{dim}], got {size} and {output_size}"


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

    def _list_problems(self) -> Iterator[str]:
        """Yield a problem unless OutputCount and Axis are valid and the outputs' sizes fit the input's."""
        count, given = len(self.output_tensors), self.output_count
        if given < 1 or given != count:
            yield f"OutputCount must be at least 1 and equal the number of OutputTensors, got {given} and {count}"
        if not 0 <= self.axis < self.input_tensor.rank:
            yield f"Axis must be between 0 and {self.input_tensor.rank - 1}, got {self.axis}"
        for dim, size in enumerate(self.input_tensor.sizes):
            sizes = [output.sizes[dim] for output in self.output_tensors]
            if dim == self.axis and sum(sizes) != size:
                yield f"the outputs' sizes on axis {dim} must sum to the input's size {size}, got {sum(sizes)}"
            if dim != self.axis and any(output_size != size for output_size in sizes):
                yield f"the outputs' sizes on axis {dim} must equal the input's size {size}, got {sizes}"


@dataclass(frozen=True)
class ElementWiseIdentity(_OneOutput):
    """DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC without scale and bias: a copy that may change the memory layout."""

    schema: ClassVar[OperatorSchema] = schema.ELEMENT_WISE_IDENTITY
    input_tensor: BufferTensor
    output_tensor: BufferTensor
    scale_bias: None = None

    def _list_problems(self) -> Iterator[str]:
        """Yield a problem unless input and output have equal sizes."""
        given, wanted = list(self.output_tensor.sizes), list(self.input_tensor.sizes)
        if given != wanted:
            yield f"OutputTensor.Sizes must equal InputTensor.Sizes, got {given} and {wanted}"


Operator = Slice1 | Slice | Split | ElementWiseIdentity


@dataclass(frozen=True)
class Field:
    """One member of a struct.

    Attributes:
        name: Its name in DirectML.h, such as `InputWindowOffsets`.
        attribute: The attribute of the operator, such as `input_window_offsets`.
        kind: `tensor`; `tensors`: an array of tensors; `null`: a pointer that is never set here; `uint`: a UINT;
            `uints`, `ints`: an array of UINT or INT.
    """

    name: str
    attribute: str
    kind: Literal["tensor", "tensors", "null", "uint", "uints", "ints"]


_KINDS: dict[Any, Any] = {
    "BufferTensor": "tensor",
    "tuple[BufferTensor, ...]": "tensors",
    "None": "null",
    "int": "uint",
    "tuple[int, ...]": "uints",
    "Ints": "ints",
}
"""The kind of a member by the type of the attribute, as the classes above spell it."""


def struct_fields(operator: Operator | type[Operator]) -> tuple[Field, ...]:
    """Return the members of an operator's struct, in the order of DirectML.h."""
    return tuple(Field(each.name.title().replace("_", ""), each.name, _KINDS[each.type]) for each in fields(operator))


def check(operator: Operator, level: FeatureLevel = LATEST) -> None:
    """Check an operator against the rules of its documentation page, as DirectML.dll applies them at a feature level.

    Raises:
        InvalidDescriptor: A rule is broken; the message names the operator and the rule.
    """
    # Only the first problem is asked for, so each rule may rely on the earlier ones.
    problem = next(_list_problems(operator, level), None)
    if problem is not None:
        raise InvalidDescriptor(f"{operator.schema.type}: {problem}.")


def _list_problems(operator: Operator, level: FeatureLevel) -> Iterator[str]:
    """Yield the rules that an operator breaks at a feature level, as parts of sentences."""
    support = operator.schema.support(level)
    if support is None:
        yield f"the operator does not exist at feature level {level}"
        return
    tensors = (operator.input_tensor, *operator.outputs)
    kind, rank = tensors[0].data_type, tensors[0].rank
    for i, tensor in enumerate(tensors):  # the first is the input
        output_name = f"OutputTensors[{i - 1}]" if isinstance(operator, Split) else "OutputTensor"
        name = "InputTensor" if i == 0 else output_name
        yield from (f"{name}: {problem}" for problem in tensor.list_problems())
        if i and tensor.may_overlap:
            yield f"{name}: elements of an output must not share an address"
        if i and tensor.flags:
            yield f"{name}: an output must not be OWNED_BY_DML"
        if (tensor.data_type, tensor.rank) != (kind, rank):
            given = f"{tensor.data_type.name} and {tensor.rank} instead of {kind.name} and {rank}"
            yield f"{name} must have InputTensor's data type and dimension count, got {given}"
    if not support.min_rank <= rank <= support.max_rank:
        yield f"feature level {level} supports {support.min_rank} to {support.max_rank} dimensions, got {rank}"
    if kind not in support.data_types:
        yield f"feature level {level} does not support {kind.name}"
    yield from operator._list_problems()


def _list_array_problems(dimension_count: int, rank: int, **arrays: Sequence[int]) -> Iterator[str]:
    """Yield a problem unless DimensionCount and the length of each array equal the rank of the tensors."""
    if dimension_count != rank:
        yield f"DimensionCount must be the rank of the tensors, {rank}, got {dimension_count}"
    for name, values in arrays.items():
        if len(values) != rank:
            yield f"{name} must have DimensionCount={rank} values, got {len(values)}"


def _list_window_problems(dim: int, first: int, end: int, input_size: int, size: int) -> Iterator[str]:
    """Yield a problem unless the window from `first` to `end` has elements and lies within the input."""
    # `size` is from the descriptor: the extent of the window in SLICE1, and the number of selected elements in SLICE.
    if size < 1:
        yield f"the window must not be empty, got size {size} in dimension {dim}"
    if first < 0 or end > input_size:
        yield f"the window [{first}, {end}) in dimension {dim} is not within the input's {input_size} elements"


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
    for field in struct_fields(operator):
        value = getattr(operator, field.attribute)
        if field.kind == "tensor":
            desc[field.name] = tensor_to_json(value)
        elif field.kind == "tensors":
            desc[field.name] = list(map(tensor_to_json, value))
        elif field.kind != "null":
            desc[field.name] = value if field.kind == "uint" else list(value)
    return {"type": operator.schema.type, "desc": desc}

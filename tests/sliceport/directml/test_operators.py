"""Operators: the examples of the pages number for number, every rule with its sentence, JSON and C forms."""

from __future__ import annotations

import ctypes
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sliceport.directml import emulator
from sliceport.directml.abi import DML_BUFFER_TENSOR_DESC, DML_TENSOR_DESC, STRUCTS, to_native
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.operators import (
    ElementWiseIdentity,
    Operator,
    Slice,
    Slice1,
    Split,
    check,
    struct_fields,
    to_json,
)
from sliceport.directml.schema import SCHEMAS
from sliceport.directml.tensor import BufferTensor, DataType
from sliceport.errors import InvalidDescriptor, UsageError

F32 = DataType.FLOAT32


def t(*sizes: int, data_type: DataType = F32, strides: tuple[int, ...] | None = None) -> BufferTensor:
    return BufferTensor.of(data_type, sizes, strides)


def run(operator: Operator, values: npt.ArrayLike) -> list[list[float]]:
    data = np.array(values, np.float32).reshape(-1).view(np.uint8)
    return [result.view(np.float32).tolist() for result in emulator.run(operator, data)]


IMAGE, QUARTER = t(1, 1, 4, 4), t(1, 1, 2, 2)


class TestPages:
    @pytest.mark.parametrize(
        ("operator", "expected"),
        [
            (Slice1(IMAGE, QUARTER, 4, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, 2, 2)), [[2, 4, 10, 12]]),
            (Slice1(IMAGE, QUARTER, 4, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2)), [[14, 16, 6, 8]]),
            (Slice(IMAGE, t(1, 1, 3, 2), 4, (0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1)), [[7, 8, 11, 12, 15, 16]]),
            (Slice(IMAGE, QUARTER, 4, (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3)), [[5, 8, 13, 16]]),
            (
                Split(t(1, 1, 6, 2), 3, (t(1, 1, 2, 2), t(1, 1, 1, 2), t(1, 1, 3, 2)), 2),
                [[1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11, 12]],
            ),
            (Split(t(1, 1, 6, 2), 2, (t(1, 1, 6, 1), t(1, 1, 6, 1)), 3), [[1, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12]]),
            (ElementWiseIdentity(t(1, 2, 2, 2), t(1, 2, 2, 2, strides=(8, 1, 4, 2))), [[1, 5, 2, 6, 3, 7, 4, 8]]),
            # An output may be smaller than what the window reaches.
            (Slice1(t(6), t(2), 1, (0,), (6,), (2,)), [[1, 3]]),
            (Slice1(t(6), t(2), 1, (0,), (6,), (-2,)), [[6, 4]]),
        ],
    )
    def test_examples_are_computed_as_on_the_pages(self, operator: Operator, expected: list[list[float]]) -> None:
        assert run(operator, range(1, 1 + operator.input_tensor.element_count)) == expected


GOOD_SLICE1 = Slice1(t(4, 6), t(2, 3), 2, (0, 1), (3, 5), (2, -2))
GOOD_SLICE = Slice(t(4, 6), t(2, 3), 2, (0, 1), (2, 3), (2, 2))
GOOD_SPLIT = Split(t(4, 6), 2, (t(4, 2), t(4, 4)), 1)
GOOD_IDENTITY = ElementWiseIdentity(t(4, 6), t(4, 6))
GOOD = (GOOD_SLICE1, GOOD_SLICE, GOOD_SPLIT, GOOD_IDENTITY)


class TestRules:
    @pytest.mark.parametrize("operator", GOOD, ids=lambda o: o.schema.type)
    def test_good_operators_pass(self, operator: Operator) -> None:
        check(operator)

    @pytest.mark.parametrize("stride", [2**31 - 1, -(2**31)])
    def test_strides_may_be_any_32_bit_integer(self, stride: int) -> None:
        check(replace(GOOD_SLICE1, output_tensor=t(1, 3), input_window_strides=(stride, 2)))

    @pytest.mark.parametrize(
        ("operator", "message"),
        [
            (replace(GOOD_SLICE1, dimension_count=3), "DimensionCount must be the rank of the tensors, 2, got 3"),
            (replace(GOOD_SLICE1, input_window_offsets=(0,)), "InputWindowOffsets must have DimensionCount=2 values"),
            (replace(GOOD_SLICE1, input_window_sizes=(3, 5, 1)), "InputWindowSizes must have DimensionCount=2 values"),
            (replace(GOOD_SLICE1, input_window_strides=()), "InputWindowStrides must have DimensionCount=2 values"),
            (replace(GOOD_SLICE1, input_window_offsets=(2, 1)), r"the window \[2, 5\) in dimension 0 is not within"),
            (replace(GOOD_SLICE1, input_window_offsets=(-1, 1)), r"the window \[-1, 2\) in dimension 0 is not within"),
            (
                replace(GOOD_SLICE1, input_window_sizes=(3, 0)),
                "the window must not be empty, got size 0 in dimension 1",
            ),
            (replace(GOOD_SLICE1, input_window_strides=(0, 1)), r"InputWindowStrides\[0\] must be a non-zero"),
            (replace(GOOD_SLICE1, input_window_strides=(2**31, 1)), "must be a non-zero 32-bit integer"),
            (replace(GOOD_SLICE1, input_window_strides=(2, -3)), "a window of 5 walked in steps of 3 has 2 elements"),
            (replace(GOOD_SLICE1, output_tensor=t(2, 0)), r"OutputTensor: sizes must be between 1"),
            (
                replace(GOOD_SLICE1, output_tensor=t(2, 3, strides=(0, 1))),
                "OutputTensor: elements of an output must not",
            ),
            (replace(GOOD_SLICE1, output_tensor=t(1, 2, 3)), "OutputTensor must have InputTensor's data type and dim"),
            (
                replace(GOOD_SLICE1, output_tensor=t(2, 3, data_type=DataType.INT32)),
                "got INT32 and 2 instead of FLOAT32 and 2",
            ),
            (replace(GOOD_SLICE1, input_window_strides=(-(2**31) - 1, 1)), "must be a non-zero 32-bit integer"),
            (replace(GOOD_SLICE, dimension_count=3), "DimensionCount must be the rank of the tensors, 2, got 3"),
            (replace(GOOD_SLICE, offsets=(0,)), "Offsets must have DimensionCount=2 values"),
            (replace(GOOD_SLICE, sizes=(2, 3, 1)), "Sizes must have DimensionCount=2 values"),
            (replace(GOOD_SLICE, strides=()), "Strides must have DimensionCount=2 values"),
            (replace(GOOD_SLICE, strides=(0, 2)), r"Strides\[0\] must be between 1 and 2147483647, got 0"),
            (replace(GOOD_SLICE, strides=(2, -2)), r"Strides\[1\] must be between 1 and 2147483647, got -2"),
            (replace(GOOD_SLICE, strides=(2**31, 2)), "between 1 and 2147483647, got 2147483648"),
            (replace(GOOD_SLICE1, output_tensor=BufferTensor(F32, (2, 3), None, 24, 0, 1)), "must not be OWNED_BY_DML"),
            (replace(GOOD_SLICE, offsets=(2, 1)), r"the window \[2, 5\) in dimension 0 is not within"),
            (replace(GOOD_SLICE, sizes=(2, 2)), r"Sizes\[1\] must equal OutputTensor.Sizes\[1\], got 2 and 3"),
            (replace(GOOD_SLICE, sizes=(2, 0)), "the window must not be empty, got size 0"),
            (replace(GOOD_SPLIT, output_count=0), "OutputCount must be at least 1 and equal the number of Output"),
            (replace(GOOD_SPLIT, output_count=3), "got 3 and 2"),
            (replace(GOOD_SPLIT, output_count=0, output_tensors=()), "got 0 and 0"),
            (replace(GOOD_SPLIT, axis=2), "Axis must be between 0 and 1, got 2"),
            (replace(GOOD_SPLIT, axis=-1), "Axis must be between 0 and 1, got -1"),
            (replace(GOOD_SPLIT, axis=0), r"the outputs' sizes on axis 0 must sum to the input's size 4, got 8"),
            (replace(GOOD_SPLIT, output_tensors=(t(4, 2), t(4, 3))), "on axis 1 must sum to the input's size 6, got 5"),
            (
                replace(GOOD_SPLIT, output_tensors=(t(3, 2), t(4, 4))),
                r"on axis 0 must equal the input's size 4, got \[3,",
            ),
            (replace(GOOD_SPLIT, output_tensors=(t(4, 2), t(4, 4, 1))), r"OutputTensors\[1\] must have InputTensor's"),
            (replace(GOOD_IDENTITY, output_tensor=t(6, 4)), r"OutputTensor.Sizes must equal .* \[6, 4\] and \[4, 6\]"),
        ],
    )
    def test_each_rule_has_its_sentence(self, operator: Operator, message: str) -> None:
        with pytest.raises(InvalidDescriptor, match=f"^{operator.schema.type}: .*{message}.*\\.$"):
            check(operator)

    def test_a_broadcast_input_is_fine(self) -> None:
        check(replace(GOOD_SLICE1, input_tensor=t(4, 6, strides=(0, 1))))


ROWS = [
    # operator, level, ranks, data types: the tables of the four pages
    ("SLICE1", "1.0", None, ""),
    ("SLICE1", "2.0", None, ""),
    ("SLICE1", "2.1", (4, 5), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("SLICE1", "3.0", (1, 8), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("SLICE1", "4.0", (1, 8), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("SLICE1", "4.1", (1, 8), "F64 F32 F16 I64 I32 I16 I8 U64 U32 U16 U8"),
    ("SLICE1", "6.4", (1, 8), "F64 F32 F16 I64 I32 I16 I8 U64 U32 U16 U8"),
    ("SLICE", "1.0", (4, 5), "F32 F16 I32 I16 U32 U16"),
    ("SLICE", "2.1", (4, 5), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("SLICE", "3.0", (1, 8), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("SLICE", "4.1", (1, 8), "F64 F32 F16 I64 I32 I16 I8 U64 U32 U16 U8"),
    ("SPLIT", "1.0", (4, 4), "F32 F16 I32 I16 U32 U16"),
    ("SPLIT", "2.1", (4, 4), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("SPLIT", "3.0", (1, 8), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("SPLIT", "4.1", (1, 8), "F64 F32 F16 I64 I32 I16 I8 U64 U32 U16 U8"),
    ("ELEMENT_WISE_IDENTITY", "1.0", (4, 5), "F32 F16"),
    ("ELEMENT_WISE_IDENTITY", "2.1", (4, 5), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("ELEMENT_WISE_IDENTITY", "3.0", (1, 8), "F32 F16 I32 I16 I8 U32 U16 U8"),
    ("ELEMENT_WISE_IDENTITY", "4.1", (1, 8), "F64 F32 F16 I64 I32 I16 I8 U64 U32 U16 U8"),
]
SHORT = {"F": "FLOAT", "I": "INT", "U": "UINT"}


@pytest.mark.parametrize(("operator", "level", "ranks", "types"), ROWS, ids=str)
def test_support_is_that_of_the_pages(operator: str, level: str, ranks: tuple[int, ...] | None, types: str) -> None:
    support = SCHEMAS[f"DML_OPERATOR_{operator}"].support(FeatureLevel.parse(level))
    if ranks is None:
        assert support is None
        return
    assert support is not None
    assert (support.min_rank, support.max_rank) == ranks
    assert support.data_types == {DataType[SHORT[name[0]] + name[1:]] for name in types.split()}


def copy_of(data_type: DataType) -> ElementWiseIdentity:
    return ElementWiseIdentity(t(4, data_type=data_type), t(4, data_type=data_type))


class TestFeatureLevels:
    @pytest.mark.parametrize(
        ("operator", "level", "message"),
        [
            (GOOD_SLICE1, FeatureLevel.V2_0, "the operator does not exist at feature level 2.0"),
            (GOOD_SLICE1, FeatureLevel.V2_1, "feature level 2.1 supports 4 to 5 dimensions, got 2"),
            (copy_of(DataType.INT64), FeatureLevel.V4_0, "feature level 4.0 does not support INT64"),
            (copy_of(DataType.INT4), FeatureLevel.V6_4, "does not support INT4"),
        ],
    )
    def test_operators_beyond_the_level_are_refused(
        self, operator: Operator, level: FeatureLevel, message: str
    ) -> None:
        with pytest.raises(InvalidDescriptor, match=message):
            check(operator, level)

    def test_unknown_levels_are_named(self) -> None:
        with pytest.raises(UsageError, match=r"feature level '7.0' does not exist; DirectML has 1.0, 2.0"):
            FeatureLevel.parse("7.0")


class TestJson:
    def test_json_has_every_field_in_the_headers_order(self) -> None:
        for operator in GOOD:
            names = [field.name for field in struct_fields(operator) if field.kind != "null"]
            assert list(to_json(operator)["desc"]) == names

    def test_json_has_strides_alignment_and_flags(self) -> None:
        tensor = BufferTensor(F32, (2, 3), (5, 1), 64, 32, 1)  # an input may be a constant that DirectML keeps
        assert to_json(ElementWiseIdentity(tensor, t(2, 3)))["desc"] == {
            "InputTensor": {
                "DataType": "FLOAT32",
                "Sizes": [2, 3],
                "Strides": [5, 1],
                "TotalTensorSizeInBytes": 64,
                "GuaranteedBaseOffsetAlignment": 32,
                "Flags": "OWNED_BY_DML",
            },
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3], "TotalTensorSizeInBytes": 24},
        }


ABI = json.loads((Path(__file__).parents[2] / "data" / "directml_abi.json").read_text())


class TestAbi:
    """Against sizes, offsets and values that a program compiled with DirectML.h printed."""

    @pytest.mark.parametrize("name", sorted(STRUCTS))
    def test_struct_has_the_layout_of_the_header(self, name: str) -> None:
        struct, expected = STRUCTS[name], ABI["structs"][name]
        assert ctypes.sizeof(struct) == expected["size"]
        assert ctypes.alignment(struct) == expected["align"]
        names = [field[0] for field in struct._fields_]
        fields = [[f, getattr(struct, f).offset, getattr(struct, f).size] for f in names]
        assert fields == expected["fields"]

    def test_enums_have_the_values_of_the_header(self) -> None:
        for schema in SCHEMAS.values():
            assert schema.value == ABI["enums"][schema.type]
        for data_type in DataType:
            assert data_type == ABI["enums"][f"DML_TENSOR_DATA_TYPE_{data_type.name}"]
        levels = {name: value for name, value in ABI["enums"].items() if name.startswith("DML_FEATURE_LEVEL_")}
        assert {f"DML_FEATURE_LEVEL_{level.name[1:]}": level.value for level in FeatureLevel} == levels

    def test_pointers_lead_to_the_numbers(self) -> None:
        operator = replace(GOOD_SLICE1, input_tensor=t(4, 6, strides=(8, 1)))
        native = to_native(operator)
        assert native.desc.Type == 111
        desc = STRUCTS["DML_SLICE1_OPERATOR_DESC"].from_address(native.desc.Desc)
        assert desc.DimensionCount == 2
        assert desc.InputWindowOffsets[:2] == [0, 1]
        assert desc.InputWindowSizes[:2] == [3, 5]
        assert desc.InputWindowStrides[:2] == [2, -2]
        buffer = DML_BUFFER_TENSOR_DESC.from_address(desc.InputTensor[0].Desc)
        assert (buffer.DataType, buffer.DimensionCount, buffer.TotalTensorSizeInBytes) == (1, 2, 120)
        assert buffer.Sizes[:2] == [4, 6]
        assert buffer.Strides[:2] == [8, 1]
        output = DML_BUFFER_TENSOR_DESC.from_address(desc.OutputTensor[0].Desc)
        assert not output.Strides

    def test_split_outputs_are_an_array(self) -> None:
        native = to_native(GOOD_SPLIT)
        desc = STRUCTS["DML_SPLIT_OPERATOR_DESC"].from_address(native.desc.Desc)
        assert (desc.OutputCount, desc.Axis) == (2, 1)
        array = ctypes.cast(desc.OutputTensors, ctypes.POINTER(DML_TENSOR_DESC * 2))[0]
        sizes = [DML_BUFFER_TENSOR_DESC.from_address(item.Desc).Sizes[:2] for item in array]
        assert sizes == [[4, 2], [4, 4]]

    @pytest.mark.parametrize(
        ("operator", "message"),
        [
            (replace(GOOD_SPLIT, axis=-1), "Axis=-1 does not fit its field"),
            (replace(GOOD_SPLIT, output_count=2**32), "OutputCount=4294967296 does not fit its field"),
            (replace(GOOD_SLICE1, input_window_sizes=(3, 2**32)), r"\[3, 4294967296\] do not fit their field"),
            (
                replace(GOOD_SLICE1, input_tensor=replace(t(4, 6), total_tensor_size_in_bytes=2**64)),
                "TotalTensorSizeInBytes=18446744073709551616 does not fit its field",
            ),
        ],
    )
    def test_numbers_beyond_their_fields_are_refused(self, operator: Operator, message: str) -> None:
        with pytest.raises(InvalidDescriptor, match=message):
            to_native(operator)


class TestEmulator:
    def test_a_buffer_that_is_too_small_is_refused(self) -> None:
        with pytest.raises(InvalidDescriptor, match="InputTensor: the tensor needs 96 bytes, but its buffer has 92"):
            emulator.run(GOOD_SLICE1, np.zeros(92, np.uint8))

    def test_bad_operators_are_refused(self) -> None:
        with pytest.raises(InvalidDescriptor, match="InputWindowStrides"):
            emulator.run(replace(GOOD_SLICE1, input_window_strides=(0, 1)), np.zeros(96, np.uint8))

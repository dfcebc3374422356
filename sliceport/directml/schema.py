"""The operators as tables: fields in the order and spelling of DirectML.h, data types and ranks by feature level.

Source: DirectML.h, and the pages of DML_SLICE1, DML_SLICE, DML_SPLIT and DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.tensor import DataType

Kind = Literal["input", "output", "outputs", "null", "uint", "uints", "ints"]
"""`input`, `output`: a tensor. `outputs`: an array of tensors. `null`: a pointer that is never set here.
`uint`: a UINT. `uints`, `ints`: an array of UINT or INT."""

_FLOATS_TO_32_BITS = frozenset({DataType.FLOAT32, DataType.FLOAT16})
_FROM_16_TO_32_BITS = _FLOATS_TO_32_BITS | {DataType.INT32, DataType.INT16, DataType.UINT32, DataType.UINT16}
_ALL_TO_32_BITS = _FROM_16_TO_32_BITS | {DataType.INT8, DataType.UINT8}
_ALL_TO_64_BITS = _ALL_TO_32_BITS | {DataType.FLOAT64, DataType.INT64, DataType.UINT64}


@dataclass(frozen=True)
class Field:
    """One member of a struct, with its name in DirectML.h."""

    name: str
    kind: Kind

    @property
    def attribute(self) -> str:
        """The name of the attribute in `operators`: `input_window_offsets` for `InputWindowOffsets`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()


@dataclass(frozen=True)
class Support:
    """The dimension counts and data types that an operator accepts from a feature level on."""

    level: FeatureLevel
    min_rank: int
    max_rank: int
    data_types: frozenset[DataType]


@dataclass(frozen=True)
class OperatorSchema:
    """One operator.

    Attributes:
        type: Name in DML_OPERATOR_TYPE.
        value: Value in DML_OPERATOR_TYPE.
        struct: Name of the struct.
        fields: Its members in order.
        supports: The dimension counts and data types that it accepts, highest level first.
    """

    type: str
    value: int
    struct: str
    fields: tuple[Field, ...]
    supports: tuple[Support, ...]

    def support(self, level: FeatureLevel) -> Support | None:
        """Return the ranks and data types accepted at `level`, or None if `level` does not have the operator."""
        return next((support for support in self.supports if support.level <= level), None)


_BOTH_TENSORS = (Field("InputTensor", "input"), Field("OutputTensor", "output"))
# From level 2.1 on, the operators accept the same tensors, except that SPLIT accepts only rank 4 below level 3.0.
_FROM_3_0 = (Support(FeatureLevel.V4_1, 1, 8, _ALL_TO_64_BITS), Support(FeatureLevel.V3_0, 1, 8, _ALL_TO_32_BITS))
_FROM_2_1 = (*_FROM_3_0, Support(FeatureLevel.V2_1, 4, 5, _ALL_TO_32_BITS))

SLICE1 = OperatorSchema(
    "DML_OPERATOR_SLICE1",
    111,
    "DML_SLICE1_OPERATOR_DESC",
    (
        *_BOTH_TENSORS,
        Field("DimensionCount", "uint"),
        Field("InputWindowOffsets", "uints"),
        Field("InputWindowSizes", "uints"),
        Field("InputWindowStrides", "ints"),
    ),
    _FROM_2_1,
)
SLICE = OperatorSchema(
    "DML_OPERATOR_SLICE",
    60,
    "DML_SLICE_OPERATOR_DESC",
    (
        *_BOTH_TENSORS,
        Field("DimensionCount", "uint"),
        Field("Offsets", "uints"),
        Field("Sizes", "uints"),
        Field("Strides", "uints"),
    ),
    (*_FROM_2_1, Support(FeatureLevel.V1_0, 4, 5, _FROM_16_TO_32_BITS)),
)
SPLIT = OperatorSchema(
    "DML_OPERATOR_SPLIT",
    62,
    "DML_SPLIT_OPERATOR_DESC",
    (
        Field("InputTensor", "input"),
        Field("OutputCount", "uint"),
        Field("OutputTensors", "outputs"),
        Field("Axis", "uint"),
    ),
    (
        *_FROM_3_0,
        Support(FeatureLevel.V2_1, 4, 4, _ALL_TO_32_BITS),
        Support(FeatureLevel.V1_0, 4, 4, _FROM_16_TO_32_BITS),
    ),
)
ELEMENT_WISE_IDENTITY = OperatorSchema(
    "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
    1,
    "DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC",
    (*_BOTH_TENSORS, Field("ScaleBias", "null")),
    (*_FROM_2_1, Support(FeatureLevel.V1_0, 4, 5, _FLOATS_TO_32_BITS)),
)

SCHEMAS = {schema.type: schema for schema in (SLICE1, SLICE, SPLIT, ELEMENT_WISE_IDENTITY)}

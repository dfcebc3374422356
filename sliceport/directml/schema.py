"""Tables of the operators: their numbers in DirectML.h, and the data types and ranks that they accept by feature level.

Source: DirectML.h, and the pages of DML_SLICE1, DML_SLICE, DML_SPLIT and DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC.
"""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.tensor import DataType

_FLOATS_TO_32_BITS = frozenset({DataType.FLOAT32, DataType.FLOAT16})
_FROM_16_TO_32_BITS = _FLOATS_TO_32_BITS | {DataType.INT32, DataType.INT16, DataType.UINT32, DataType.UINT16}
_ALL_TO_32_BITS = _FROM_16_TO_32_BITS | {DataType.INT8, DataType.UINT8}
_ALL_TO_64_BITS = _ALL_TO_32_BITS | {DataType.FLOAT64, DataType.INT64, DataType.UINT64}


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
        supports: The dimension counts and data types that it accepts, highest level first.
    """

    type: str
    value: int
    supports: tuple[Support, ...]

    @property
    def struct(self) -> str:
        """Name of the struct, such as `DML_SLICE1_OPERATOR_DESC` for `DML_OPERATOR_SLICE1`."""
        return f"{self.type.replace('_OPERATOR', '')}_OPERATOR_DESC"

    def support(self, level: FeatureLevel) -> Support | None:
        """Return the ranks and data types accepted at `level`, or None if `level` does not have the operator."""
        return next((support for support in self.supports if support.level <= level), None)


# From level 2.1 on, the operators accept the same tensors, except that SPLIT accepts only rank 4 below level 3.0.
_FROM_3_0 = (Support(FeatureLevel.V4_1, 1, 8, _ALL_TO_64_BITS), Support(FeatureLevel.V3_0, 1, 8, _ALL_TO_32_BITS))
_FROM_2_1 = (*_FROM_3_0, Support(FeatureLevel.V2_1, 4, 5, _ALL_TO_32_BITS))
_SPLIT_BELOW_3_0 = (
    Support(FeatureLevel.V2_1, 4, 4, _ALL_TO_32_BITS),
    Support(FeatureLevel.V1_0, 4, 4, _FROM_16_TO_32_BITS),
)
_SLICE_AT_1_0 = Support(FeatureLevel.V1_0, 4, 5, _FROM_16_TO_32_BITS)
_IDENTITY_AT_1_0 = Support(FeatureLevel.V1_0, 4, 5, _FLOATS_TO_32_BITS)

SLICE1 = OperatorSchema("DML_OPERATOR_SLICE1", 111, _FROM_2_1)
SLICE = OperatorSchema("DML_OPERATOR_SLICE", 60, (*_FROM_2_1, _SLICE_AT_1_0))
SPLIT = OperatorSchema("DML_OPERATOR_SPLIT", 62, (*_FROM_3_0, *_SPLIT_BELOW_3_0))
ELEMENT_WISE_IDENTITY = OperatorSchema("DML_OPERATOR_ELEMENT_WISE_IDENTITY", 1, (*_FROM_2_1, _IDENTITY_AT_1_0))

SCHEMAS = {schema.type: schema for schema in (SLICE1, SLICE, SPLIT, ELEMENT_WISE_IDENTITY)}

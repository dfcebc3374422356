"""Operators that DirectML itself accepts or computes wrongly. sliceport builds none of them, and `check` raises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from sliceport.defects.defect import Accepts, Bits, Defect, Divergence, Example, Fails
from sliceport.defects.engines import DIRECTML, VERSIONS
from sliceport.directml.operators import ElementWiseIdentity, Operator, Slice1, to_json
from sliceport.directml.tensor import BufferTensor, DataType

INT32_MIN = -(2**31)
E_INVALIDARG = Fails("0x80070057")
FLOAT16, FLOAT32 = DataType.FLOAT16, DataType.FLOAT32
_directml = partial(Divergence, DIRECTML, versions=VERSIONS[DIRECTML])


@dataclass(frozen=True)
class DirectMLCase:
    """An operator and its input.

    Attributes:
        operator: The descriptor.
        bits: The elements of its input, as bits. If it is empty, the operator is only created.
    """

    operator: Operator
    bits: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the case as JSON values; see `Case`."""
        return {"directml": to_json(self.operator)} | ({"bits": list(self.bits)} if self.bits else {})

    def __str__(self) -> str:
        """Format the operator with its tensors' sizes and strides, and its other fields."""
        operator = self.operator
        name = operator.schema.type.removeprefix("DML_OPERATOR_")
        tensors = [_describe_tensor(tensor) for tensor in (operator.input_tensor, *operator.outputs)]
        parts = [f"{operator.input_tensor.data_type.name} {tensors[0]} to {', '.join(tensors[1:])}"]
        if isinstance(operator, Slice1):
            parts += [f"offsets {list(operator.input_window_offsets)}", f"sizes {list(operator.input_window_sizes)}"]
            parts.append(f"strides {list(operator.input_window_strides)}")
        parts += [f"of {', '.join(map(hex, self.bits))}"] if self.bits else []
        return f"{name} {', '.join(parts)}"


def _describe_tensor(tensor: BufferTensor) -> str:
    return str(list(tensor.sizes)) + ("" if tensor.strides is None else f" by strides {list(tensor.strides)}")


def _slice(stride: int) -> Slice1:
    """Return a descriptor with a window of one element of four, and an output of three."""
    return Slice1(BufferTensor.of(FLOAT32, (4,)), BufferTensor.of(FLOAT32, (3,)), 1, (0,), (1,), (stride,))


_DEFECTS = (
    Defect(
        id="window stride of INT_MIN",
        trigger="a SLICE1 with a window stride of INT_MIN",
        right="by the page of DML_SLICE1_OPERATOR_DESC, the output is no larger than the window has steps",
        divergences=(_directml("accepts any output size, and would read past the end of the input"),),
        examples=tuple(
            Example(
                DirectMLCase(
                    Slice1(BufferTensor.of(FLOAT32, (4,)), BufferTensor.of(FLOAT32, (3,)), 1, (0,), (1,), (stride,))
                ),
                right=E_INVALIDARG,
                seen={DIRECTML: seen},
            )
            for stride, seen in ((INT32_MIN, Accepts()), (INT32_MIN + 1, E_INVALIDARG))
        ),
        handling="avoided",
        workaround="sliceport refuses such a descriptor",
    ),
    Defect(
        id="output elements that interleave and overlap",
        trigger="an output whose elements overlap, although no stride is 0 and no two are equal",
        right="by the page on strides, elements of an output must not overlap",
        divergences=(_directml("accepts it, and elements overwrite each other"),),
        examples=(
            Example(
                DirectMLCase(
                    ElementWiseIdentity(BufferTensor.of(FLOAT32, (2, 3)), BufferTensor.of(FLOAT32, (2, 3), (4, 2)))
                ),
                right=E_INVALIDARG,
                seen={DIRECTML: Accepts()},
            ),
        ),
        handling="avoided",
        workaround="sliceport refuses this descriptor as well",
    ),
    Defect(
        id="signalling NaNs",
        trigger="signalling NaNs of FLOAT16 in an ELEMENT_WISE_IDENTITY that changes the layout",
        right="by the page of DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC, the output is the input",
        divergences=(_directml("makes them quiet"),),
        examples=(
            Example(
                DirectMLCase(
                    ElementWiseIdentity(BufferTensor.of(FLOAT16, (2, 2)), BufferTensor.of(FLOAT16, (2, 2), (1, 2))),
                    (0x7C01, 0x7C02, 0x7C03, 0x7C04),
                ),
                right=Bits((0x7C01, 0x7C03, 0x7C02, 0x7C04)),
                seen={DIRECTML: Bits((0x7E01, 0x7E03, 0x7E02, 0x7E04))},
            ),
        ),
        handling="avoided",
        workaround="sliceport copies floats with it as UINT",
    ),
)
ENTRIES = {defect.id: defect for defect in _DEFECTS}

"""The entries of `directml.toml`: operators that DirectML wrongly accepts or computes. `lower` never writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from sliceport.defects.entries import read_entries
from sliceport.directml.operators import ElementWiseIdentity, Operator, Slice1, to_json
from sliceport.directml.tensor import BufferTensor, DataType


@dataclass(frozen=True)
class DirectMLCase:
    """An operator and its input.

    Attributes:
        operator: The descriptor.
        bits: The elements of its input, as bits. Without bits, the operator is created but does not run.
    """

    operator: Operator
    bits: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, operator: str, data_type: str, tensors: Sequence[Sequence[Any]], bits: tuple[int, ...] = (), **fields: Any
    ) -> DirectMLCase:
        """Build a case from an example in `directml.toml`.

        Args:
            operator: The name of the operator: `SLICE1` or `ELEMENT_WISE_IDENTITY`.
            data_type: The name of the data type of all tensors.
            tensors: The sizes of each tensor and, unless it is packed, its strides; the input comes first.
            bits: The elements of the input, as bits.
            fields: The other fields of the operator's struct.
        """
        kinds: dict[str, Any] = {"SLICE1": Slice1, "ELEMENT_WISE_IDENTITY": ElementWiseIdentity}
        buffers = [BufferTensor.of(DataType[data_type], *tensor) for tensor in tensors]
        return cls(kinds[operator](*buffers, **fields), bits)

    def to_json(self) -> dict[str, Any]:
        """Return the case as JSON values; see `Case`."""
        return {"directml": to_json(self.operator)} | ({"bits": list(self.bits)} if self.bits else {})

    def __str__(self) -> str:
        """Format the operator: data type, sizes and strides of its tensors, its other fields, and the input's bits."""
        operator = self.operator
        name = operator.schema.type.removeprefix("DML_OPERATOR_")
        tensors = [
            f"{list(tensor.sizes)}{'' if tensor.strides is None else f' by strides {list(tensor.strides)}'}"
            for tensor in (operator.input_tensor, *operator.outputs)
        ]
        parts = [f"{operator.input_tensor.data_type.name} {tensors[0]} to {', '.join(tensors[1:])}"]
        if isinstance(operator, Slice1):
            parts += [f"offsets {list(operator.input_window_offsets)}", f"sizes {list(operator.input_window_sizes)}"]
            parts.append(f"strides {list(operator.input_window_strides)}")
        if self.bits:
            parts.append(f"of {', '.join(map(hex, self.bits))}")
        return f"{name} {', '.join(parts)}"


ENTRIES = read_entries("directml", DirectMLCase.of, tuple(signature(DirectMLCase.of).parameters))

"""The fusion of a Transpose and a MatMul by onnxruntime's default graph optimisation, which fails on an empty axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ops.model.nodes import is_operator, read_ints, sizes_of
from onnx_ops.model.views import NodeView, ValueView


def has_batch_fusion(perm: Sequence[int]) -> bool:
    """Return whether onnxruntime fuses a Transpose with a MatMul as a transposition of the batch axes.

    The Transpose moves the first axis behind all batch axes. The process ends if the first axis is empty.
    """
    return len(perm) > 2 and list(perm[:-2]) == list(range(1, len(perm) - 1))


def find_transposed_data(matmul: NodeView, opset: int) -> Iterator[ValueView]:
    """Yield the data of each Transpose that onnxruntime fuses with this MatMul as in `has_batch_fusion`.

    Raises:
        InvalidSlice, DynamicSlice: The perm is not a list of integers or not known.
    """
    operands = [value for value in matmul.inputs if value is not None]
    operand_sizes = [sizes_of(value) for value in operands]
    ranks = {None if sizes is None else len(sizes) for sizes in operand_sizes}
    for value in operands:
        transpose, dtype = value.producer(), value.dtype
        # MatMul below opset 9 is not fused, and the CPU provider has no kernel for the fused node of other types.
        is_fused = opset >= 9 and dtype is not None and dtype.name in ("FLOAT", "DOUBLE")
        if is_fused and is_operator(transpose, "Transpose") and transpose.inputs[0] is not None:
            perm = read_ints(transpose, "perm") or ()  # the default, a reversal, is not fused this way
            if has_batch_fusion(perm) and ranks == {len(perm)}:
                yield transpose.inputs[0]

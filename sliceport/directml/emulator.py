"""An emulator that runs operators on byte buffers by the formulas of their documentation pages, without DirectML.

The emulator is an oracle for the lowering, so the two share no arithmetic. The formulas are:
  * element offset: the dot product of coordinates and strides (strides page);
  * SLICE1: `Output[c] = Input[CopyStart + InputWindowStrides * c]`, where CopyStart is the window's offset, or its last
    element for a negative stride;
  * SLICE: `Output[c] = Input[Offsets + Strides * c]`;
  * SPLIT: on the split axis, output `k` starts where output `k - 1` ends;
  * ELEMENT_WISE_IDENTITY: `Output[c] = Input[c]`.
Bytes of an output buffer that belong to no element keep their initial value, FILL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sliceport.directml.operators import ElementWiseIdentity, Operator, Slice, Slice1, Split, check
from sliceport.directml.tensor import BufferTensor
from sliceport.errors import InvalidDescriptor

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

FILL = 0xA5
"""Value of every byte in output buffers before a run."""


def run(operator: Operator, data: Bytes) -> list[Bytes]:
    """Run an operator.

    Args:
        operator: The descriptor; it is checked first.
        data: The input buffer's bytes from the start of the tensor to its last element or beyond.

    Returns:
        The contents of the output buffers after the run. Bytes that belong to no element are FILL.

    Raises:
        InvalidDescriptor: The operator breaks a rule, or a buffer is too small for its tensor.
    """
    check(operator)
    source = _view_elements(data, operator.input_tensor, "InputTensor")
    results = []
    for number, tensor in enumerate(operator.outputs):
        after = np.full(tensor.total_tensor_size_in_bytes, FILL, np.uint8)
        elements = _view_elements(after, tensor, f"output {number}")
        indices = [np.arange(size, dtype=np.int64) for size in tensor.sizes]
        elements[_grid_offsets(indices, _strides(tensor))] = source[_input_offsets(operator, number, indices)]
        results.append(after)
    return results


def _view_elements(data: Bytes, tensor: BufferTensor, name: str) -> npt.NDArray[np.generic]:
    """View `data` as unsigned integers of the elements' width. Raise InvalidDescriptor if `data` is too small."""
    width = tensor.data_type.bits // 8
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.sizes, _strides(tensor), strict=True))
    if data.size < extent * width:
        raise InvalidDescriptor(f"{name}: the tensor needs {extent * width} bytes, but its buffer has {data.size}.")
    whole = data[: data.size // width * width]  # NumPy views only whole elements
    return whole.view(np.dtype(f"u{width}"))


def _strides(tensor: BufferTensor) -> tuple[int, ...]:
    """Return the strides. `packed_strides` is not used, because the emulator shares no arithmetic with the lowering."""
    if tensor.strides is not None:
        return tensor.strides
    strides, step = [], 1
    for size in reversed(tensor.sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _grid_offsets(coordinates: Sequence[Offsets], strides: Sequence[int]) -> Offsets:
    """Return the element offsets for all combinations of coordinates, as an array with one axis per dimension.

    `coordinates[dim]` are the coordinates to combine in dimension `dim`.
    """
    rank = len(strides)
    total = np.zeros((1,) * rank, np.int64)
    for dim, (indices, stride) in enumerate(zip(coordinates, strides, strict=True)):
        offsets = indices if stride == 1 else indices * stride
        offsets = offsets.reshape([-1 if other == dim else 1 for other in range(rank)])
        is_zero = total.size == 1 and not total.any()
        total = offsets if is_zero else total + offsets  # adding a single 0 would copy the array `offsets`
    return total


def _input_offsets(operator: Operator, number: int, indices: Sequence[Offsets]) -> Offsets:
    """Return the offsets of the input elements to copy to output `number`.

    `indices[dim]` are all indices of that output in dimension `dim`.
    """
    coordinates = list(indices)
    if isinstance(operator, Slice1):
        for dim, stride in enumerate(operator.input_window_strides):
            copy_start = operator.input_window_offsets[dim]
            if stride < 0:
                copy_start += operator.input_window_sizes[dim] - 1
            coordinates[dim] = copy_start + stride * coordinates[dim]
    elif isinstance(operator, Slice):
        for dim, stride in enumerate(operator.strides):
            coordinates[dim] = operator.offsets[dim] + stride * coordinates[dim]
    elif isinstance(operator, Split):
        start = sum(tensor.sizes[operator.axis] for tensor in operator.output_tensors[:number])
        coordinates[operator.axis] = start + coordinates[operator.axis]
    else:
        assert isinstance(operator, ElementWiseIdentity)
    return _grid_offsets(coordinates, _strides(operator.input_tensor))

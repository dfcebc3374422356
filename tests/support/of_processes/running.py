"""Running what a node was lowered to on the emulator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sliceport.directml import emulator
from sliceport.directml.lowered import Call, LoweredNode
from sliceport.directml.tensor import BufferTensor

Bytes = npt.NDArray[np.uint8]


def as_bytes(array: npt.NDArray[np.generic]) -> Bytes:
    """Return the elements of an array, packed row-major."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8) if flat.size else np.zeros(0, np.uint8)


def as_array(value: object) -> npt.NDArray[Any]:
    assert isinstance(value, np.ndarray)
    return value


def as_arrays(results: Iterable[object]) -> list[npt.NDArray[Any]]:
    """Return the results of a session of onnxruntime, all of them tensors."""
    return [as_array(result) for result in results]


def padded(data: Bytes, size: int) -> Bytes:
    """Return a buffer of at least `size` bytes."""
    return np.concatenate([data, np.full(max(0, size - data.size), 0xEE, np.uint8)])


def run_call(call: Call, buffers: dict[str, Bytes]) -> dict[str, Bytes]:
    """Return the bytes of each value that an operator writes."""
    data = buffers[call.input.value][call.input.byte_offset :]
    results = emulator.run(call.operator, padded(data, call.operator.input_tensor.total_tensor_size_in_bytes))
    return {binding.value: result for binding, result in zip(call.outputs, results, strict=True)}


def gathered(data: Bytes, tensor: BufferTensor) -> Bytes:
    """Return the elements of a strided tensor, packed, by one dot product an element."""
    width = tensor.data_type.bits // 8
    strides = tensor.effective_strides
    picked = []
    for coordinates in np.ndindex(*tensor.sizes):
        offset = sum(int(c) * s for c, s in zip(coordinates, strides, strict=True)) * width
        picked.append(data[offset : offset + width])
    return np.concatenate(picked)


def run_node(lowered: LoweredNode, data: Bytes) -> dict[str, Bytes]:
    """Return the bytes of each output of a node; those of a buffer's last partial 4 bytes are cut off by the caller."""
    node = lowered.resolved
    got = {cut.output: np.zeros(0, np.uint8) for cut in node.cuts if cut.region.is_empty}
    for alias in lowered.aliases:
        source = data[alias.byte_offset :]
        got[alias.output] = source if alias.tensor is None else gathered(padded(source, 16), alias.tensor)
    for call in lowered.calls:
        got |= run_call(call, {node.input: data})
    return got

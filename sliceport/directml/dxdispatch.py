"""One operator as a model file for Microsoft's DxDispatch tool, which loads it unmodified.

Source: the parser of DxDispatch (`JsonParsers.cpp`). Resources are whole buffers; the operator's tensors say how they
lie in them. Outputs are filled with a pattern, so that untouched padding shows, and written back as `.npy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sliceport.directml.operators import Operator, Split, to_json
from sliceport.directml.tensor import BufferTensor, DataType

NUMPY_TYPES: dict[DataType, str] = {
    DataType.FLOAT64: "f8",
    DataType.FLOAT32: "f4",
    DataType.FLOAT16: "f2",
    DataType.INT64: "i8",
    DataType.INT32: "i4",
    DataType.INT16: "i2",
    DataType.INT8: "i1",
    DataType.UINT64: "u8",
    DataType.UINT32: "u4",
    DataType.UINT16: "u2",
    DataType.UINT8: "u1",
}


def example_input(operator: Operator) -> npt.NDArray[Any]:
    """An input buffer for an operator: as many elements as the tensor reaches, counting up and wrapping by type.

    Every value is a number that the type holds exactly, so the file shows at a glance where an element came from.
    """
    tensor = operator.input_tensor
    dtype = np.dtype(f"<{NUMPY_TYPES[tensor.data_type]}")
    limit = {"f2": 2048, "f4": 2**24, "f8": 2**53}.get(NUMPY_TYPES[tensor.data_type])
    if limit is None:
        limit = int(np.iinfo(dtype).max) + 1
    return (np.arange(tensor.physical_size, dtype=np.int64) % min(limit, 2**62)).astype(dtype)


def model(operator: Operator, name: str, input_file: str, output_files: Sequence[str]) -> dict[str, Any]:
    """The DxDispatch model that runs an operator once.

    Args:
        operator: The descriptor.
        name: What to call the dispatchable.
        input_file: The `.npy` file that holds the input buffer, beside the model file.
        output_files: Where DxDispatch is to write the outputs, relative to its output folder.
    """
    outputs = [f"output_{i}" for i in range(len(output_files))]
    resources: dict[str, Any] = {"input": {"initialValues": {"sourcePath": input_file}}}
    commands: list[dict[str, Any]] = []
    bind_point = "OutputTensors" if isinstance(operator, Split) else "OutputTensor"
    bindings: dict[str, Any] = {
        "InputTensor": "input",
        bind_point: outputs if isinstance(operator, Split) else outputs[0],
    }
    commands.append({"type": "dispatch", "dispatchable": name, "bindings": bindings})
    for resource, file, tensor in zip(outputs, output_files, operator.outputs, strict=True):
        resources[resource] = _fill(tensor)
        commands.append(
            {"type": "writeFile", "resource": resource, "targetPath": file, "dimensions": _dimensions(tensor)}
        )
    return {"resources": resources, "dispatchables": {name: to_json(operator)}, "commands": commands}


def _fill(tensor: BufferTensor) -> dict[str, Any]:
    """A resource of at least TotalTensorSizeInBytes, every element 0."""
    elements = -(-tensor.total_tensor_size_in_bytes * 8 // tensor.data_type.bits)
    return {
        "initialValuesDataType": tensor.data_type.name,
        "initialValues": {"valueCount": elements, "value": 0},
        "sizeInBytes": tensor.total_tensor_size_in_bytes,
    }


def _dimensions(tensor: BufferTensor) -> list[int]:
    return list(tensor.sizes) if tensor.strides is None else [tensor.physical_size]

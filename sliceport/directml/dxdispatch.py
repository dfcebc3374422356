"""One operator as a model file for Microsoft's tool DxDispatch.

Source: the parser of DxDispatch (`JsonParsers.cpp`). A resource is a whole buffer; the operator's tensor defines the
sizes and strides over it. DxDispatch fills output buffers with zeros, and writes them to `.npy` files after the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sliceport.directml.operators import Operator, Split, to_json
from sliceport.directml.tensor import DataType
from sliceport.sandbox.place import write_json

MAX_INPUT_BYTES = 64 * 2**20
"""Largest size in bytes of an input that is written as `.npy`. DxDispatch fills larger inputs by counting up from 0."""
NUMPY_TYPES = {kind: f"{kind.name[0].lower()}{kind.bits // 8}" for kind in DataType if kind.bits >= 8}
"""Type codes of NumPy, such as `f4` for FLOAT32."""


def example_input(operator: Operator) -> npt.NDArray[Any]:
    """Return an input buffer for an operator: as many elements as the tensor spans, counting up from 0.

    The count starts again at 0 before it reaches numbers that the type cannot hold exactly. If it never
    starts again, each value in an output shows which element of the input was copied.
    """
    tensor = operator.input_tensor
    dtype = np.dtype(f"<{NUMPY_TYPES[tensor.data_type]}")
    # From this power of two on, a float type skips integers.
    limit = 2 ** (np.finfo(dtype).nmant + 1) if dtype.kind == "f" else int(np.iinfo(dtype).max) + 1
    limit = min(limit, 2**62)  # fits the int64 of the count
    return (np.arange(tensor.physical_size, dtype=np.int64) % limit).astype(dtype)


def build_model(operator: Operator, name: str, input_file: str, output_files: Sequence[str]) -> dict[str, Any]:
    """Return the DxDispatch model that runs an operator once.

    Args:
        operator: The descriptor.
        name: Name of the operator in the model.
        input_file: The `.npy` file of the input buffer, relative to the folder of the model file.
        output_files: The `.npy` file for each output, relative to DxDispatch's output folder.
    """
    outputs = [f"output_{i}" for i in range(len(output_files))]
    resources: dict[str, Any] = {"input": {"initialValues": {"sourcePath": input_file}}}
    output_binding = {"OutputTensors": outputs} if isinstance(operator, Split) else {"OutputTensor": outputs[0]}
    bindings = {"InputTensor": "input", **output_binding}
    commands: list[dict[str, Any]] = [{"type": "dispatch", "dispatchable": name, "bindings": bindings}]
    for resource, file, tensor in zip(outputs, output_files, operator.outputs, strict=True):
        size = tensor.total_tensor_size_in_bytes
        value_count = -(-size * 8 // tensor.data_type.bits)  # rounded up
        resources[resource] = {
            "initialValuesDataType": tensor.data_type.name,
            "initialValues": {"valueCount": value_count, "value": 0},
            "sizeInBytes": size,
        }
        # writeFile has no strides, so a strided tensor is written as its whole buffer.
        dimensions = list(tensor.sizes) if tensor.strides is None else [tensor.physical_size]
        commands.append({"type": "writeFile", "resource": resource, "targetPath": file, "dimensions": dimensions})
    return {"resources": resources, "dispatchables": {name: to_json(operator)}, "commands": commands}


def write_model(operator: Operator, name: str, folder: Path) -> None:
    """Write the DxDispatch model to `{name}.json`, and its input to `{name}.input.npy`.

    An input above MAX_INPUT_BYTES gets no file: DxDispatch fills it with the numbers 0, 1, 2 and so on.
    """
    files = [f"{name}.output_{i}.npy" for i in range(len(operator.outputs))]
    data = build_model(operator, name, f"{name}.input.npy", files)
    tensor = operator.input_tensor
    if tensor.total_tensor_size_in_bytes <= MAX_INPUT_BYTES:
        np.save(folder / f"{name}.input.npy", example_input(operator))
    else:
        data["resources"]["input"] = {
            "initialValuesDataType": tensor.data_type.name,
            "initialValues": {"valueCount": tensor.physical_size, "valueStart": 0, "valueDelta": 1},
        }
    write_json(folder / f"{name}.json", data)

"""Writing a program into a folder, whole or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from sliceport.directml import dxdispatch
from sliceport.directml.program import Call, Program
from sliceport.sandbox.place import fill_folder, write_json

MAX_INPUT_BYTES = 64 * 2**20
"""Inputs of more bytes are not written as `.npy`; their DxDispatch file fills them with a sequence."""

_ANNOTATED = ("model.onnx",)
"""What an earlier run may have written a model to; another format's is known from the program's own source."""
_DXDISPATCH = ("dxdispatch/[0-9]*.json", "dxdispatch/[0-9]*.input.npy", "dxdispatch/[0-9]*.output_[0-9]*.npy")


def write_program(program: Program, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a program; see `Program.write`.

    Raises:
        UsageError: The folder exists and must be kept, is not one that this wrote, or cannot be made.
        ModelError: The annotated model cannot be written.
    """
    annotated = set(_ANNOTATED if program.source is None else (*_ANNOTATED, program.source.file_name))
    fill_folder(
        directory,
        lambda folder: _fill(program, folder),
        mark="program.json",
        others=(*annotated, *_DXDISPATCH),
        overwrite=overwrite,
    )


def _fill(program: Program, folder: Path) -> None:
    write_json(folder / "program.json", program.to_json())
    if program.calls:
        (folder / "dxdispatch").mkdir()
    names = _file_names(program)
    for call in program.calls:
        _write_dxdispatch(call, names[call.id], folder / "dxdispatch")
    if program.source is not None:
        program.source.write_annotated(
            folder, program.nodes, {number: f"dxdispatch/{name}.json" for number, name in names.items()}
        )


def _file_names(program: Program) -> dict[int, str]:
    """A file name for each operator: its number and the first node that it is for."""
    names: dict[int, str] = {}
    for node in program.nodes:
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", node.node.name).strip("_.")[:60]
        for call in node.calls:
            names.setdefault(call.id, f"{call.id:04d}_{safe}" if safe else f"{call.id:04d}")
    return names


def _write_dxdispatch(call: Call, name: str, folder: Path) -> None:
    operator = call.operator
    files = [f"{name}.output_{i}.npy" for i in range(len(operator.outputs))]
    data = dxdispatch.model(operator, name, f"{name}.input.npy", files)
    if operator.input_tensor.total_tensor_size_in_bytes <= MAX_INPUT_BYTES:
        np.save(folder / f"{name}.input.npy", dxdispatch.example_input(operator))
    else:
        tensor = operator.input_tensor
        data["resources"]["input"] = {
            "initialValuesDataType": tensor.data_type.name,
            "initialValues": {"valueCount": tensor.physical_size, "valueStart": 0, "valueDelta": 1},
        }
    write_json(folder / f"{name}.json", data)

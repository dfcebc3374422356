"""Models from files and into files."""

from __future__ import annotations

import os
from pathlib import Path

import openvino as ov

from ov_ext.frontend import strided_slice_extension
from ov_ext.messages import last_words
from ov_ext.operators import operator_extensions
from ov_ext.passes import note_operators
from sliceport.atomic_write import write_files
from sliceport.errors import ModelError, UsageError


def read_model(path: str | os.PathLike[str]) -> ov.Model:
    """Read an IR file, or another that OpenVINO reads; our operators stay, and other slicing is built-in operators.

    Args:
        path: The file.

    Raises:
        ModelError: There is no such file, or OpenVINO does not read it.
    """
    if not Path(path).is_file():
        raise ModelError(f"model {os.fspath(path)!r} is no file.")
    core = ov.Core()
    for extension in (*operator_extensions(), strided_slice_extension()):
        core.add_extension(extension)
    try:
        return core.read_model(os.fspath(path))
    except Exception as error:  # OpenVINO raises what its front ends happen to raise
        raise ModelError(f"model {os.fspath(path)!r} cannot be read by OpenVINO: {last_words(error)}") from None


def write_model(model: ov.Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write an IR file, `.xml` with its `.bin`: both or neither. Weights keep their types.

    Args:
        model: The model.
        path: The `.xml` file.
        overwrite: Whether to replace existing files.

    With our operators in it, the model's `rt_info`, and so the file, says where they come from.

    Raises:
        UsageError: The name does not end in .xml, the file exists and is to be kept, or it cannot be written.
    """
    target = Path(path)
    if target.suffix != ".xml":
        raise UsageError(f"output {str(target)!r} must end in .xml: OpenVINO's own format is what is written.")

    def save(folder: Path) -> None:
        try:
            ov.save_model(model, str(folder / target.name), compress_to_fp16=False)
        except RuntimeError as error:
            raise UsageError(f"output {str(target)!r} cannot be written: {last_words(error)}") from None

    note_operators(model)
    write_files([target.with_suffix(".bin"), target], save, overwrite=overwrite)

"""Reading and writing of OpenVINO models."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Any

import openvino as ov

from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.model.passes import name_unnamed_nodes, note_operators
from ov_ext.model.read import bind_shapes
from ov_ext.operators.error_text import last_sentence
from ov_ext.operators.frontend import strided_slice_extension
from ov_ext.operators.nodes import operator_extensions
from sliceport.arguments import check_path, is_path
from sliceport.errors import ModelError, UsageError, model_error
from sliceport.sandbox.place import write_files


@with_openvino_lock
def read_model(path: str | os.PathLike[str]) -> ov.Model:
    """Read an IR file, or another file that OpenVINO reads. The file may contain operators of `ov_ext`.

    Args:
        path: The file.

    Raises:
        UsageError: `path` is not a path; see also `ov_ext.backend`.
        ModelError: The file does not exist, it or its `.bin` file is not a regular file, or OpenVINO does not read it.
        MemoryError: OpenVINO ran out of memory.
    """
    check_path(path, "model")
    name = os.fspath(path)
    stem, suffix = os.path.splitext(name)
    files = [name] if suffix == ".onnx" else [name, f"{stem}.bin"]  # Weights of ONNX are in files of any name.
    for file in files:  # OpenVINO would wait for the data of a pipe.
        if os.path.exists(file) and not os.path.isfile(file):
            raise ModelError(f"'{file}' is not a file.")
    if not os.path.isfile(name):
        raise ModelError(f"model '{name}' is not a file.")
    return _read(f"model '{name}'", os.path.abspath(name))


@with_openvino_lock
def read_model_bytes(data: bytes, weights: bytes, data_folder: str = "") -> ov.Model:
    """Read a model like `read_model`, but from the bytes of its file and of its `.bin` file.

    `weights` is empty if there is no `.bin` file. `data_folder` is the folder of an ONNX model's external data files.

    Raises:
        ModelError: OpenVINO does not read the model.
        MemoryError: OpenVINO ran out of memory.
    """
    return _read("the model", *((data, weights) if weights else (data,)), data_folder=data_folder)


def _read(subject: str, *source: str | bytes, data_folder: str = "") -> ov.Model:
    """Read a model from the arguments of `Core.read_model`. `subject` names the model in errors."""
    core = ov.Core()
    if sys.platform == "win32":  # Windows cannot replace a mapped file, so the caller could not overwrite the model.
        core.set_property({"ENABLE_MMAP": False})
    for extension in (*operator_extensions(), strided_slice_extension()):
        core.add_extension(extension)
    try:
        with chdir(data_folder) if data_folder else nullcontext():  # the folder where OpenVINO looks for external data
            return core.read_model(*source)
    except Exception as error:  # Each front end of OpenVINO raises errors of its own.
        raise model_error(f"{subject} cannot be read by OpenVINO: {last_sentence(error)}", error) from None


@with_openvino_lock
def read_with_shapes(model: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> ov.Model:
    """Read or copy a model, and give its inputs these shapes.

    Args:
        model: A file's path, or an `openvino.Model`, which is cloned.
        shapes: See `bind_shapes`.

    Raises:
        UsageError: `model` is of another type; see also `bind_shapes` and `backend`.
    """
    if isinstance(model, ov.Model):
        copy = model.clone()
    elif is_path(model):
        copy = read_model(model)
    else:
        raise UsageError(f"a model is a file's path or an openvino.Model, got {type(model).__name__}.")
    bind_shapes(copy, shapes or {})
    return copy


@with_openvino_lock
def write_model(
    model: ov.Model,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    accept: Callable[[Path], bool] = lambda _: True,
) -> None:
    """Write an IR model as an `.xml` and a `.bin` file, both or neither. Weights keep their types.

    Args:
        model: The model, which is changed: nodes without a name get one. If the model has operators of ov_ext, its
            `rt_info` gets a note about their origin; otherwise such a note is removed.
        path: The `.xml` file.
        overwrite: Whether to replace existing files.
        accept: Called with the path of a temporary `.xml` file. Returns whether to keep both files. Its errors pass
            through, and then nothing is written.

    Raises:
        UsageError: The name does not end in .xml, a file exists and `overwrite` is false, or a file cannot be written.
    """
    target = Path(path)
    if target.suffix != ".xml":
        raise UsageError(f"output '{target}' must end in .xml, because only OpenVINO's own format is written.")

    def save(folder: Path) -> None:
        try:
            ov.save_model(model, str(folder / target.name), compress_to_fp16=False)
        except RuntimeError as error:
            raise UsageError(f"output '{target}' cannot be written: {last_sentence(error)}") from None

    note_operators(model)
    name_unnamed_nodes(model)
    files = [target.with_suffix(".bin"), target]
    write_files(files, save, overwrite=overwrite, accept=lambda folder: accept(folder / target.name))

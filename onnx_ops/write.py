"""Writing an ONNX model, beside and renamed into place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir

from onnx_ops.resolve_shapes import name_left_out_outputs
from sliceport.atomic_write import write_files
from sliceport.errors import ModelError, UsageError


def write_model(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str],
    overwrite: bool = False,
    accept: Callable[[Path, Path], bool] = lambda _file, _data_folder: True,
) -> None:
    """Write a model; outputs that a Split leaves out are named, or the file would have fewer, and other parts.

    Weights in external data files stay where they are if the new file is beside the old one; else they are written
    anew, into one file beside it by its name with `.data`.

    Args:
        model: The model.
        path: The new file; its name ends in .onnx.
        source: The file that the model was read from.
        overwrite: Whether to replace the new file, or its data.
        accept: Whether to keep the file that it is given first; its external data lie in the folder given next.

    Raises:
        UsageError: The name does not end in .onnx, the file exists and is to be kept, or it cannot be written.
        ModelError: The model cannot be represented as a file (of more than 2 GiB, say).
    """
    target = Path(path)
    if target.suffix != ".onnx":
        raise UsageError(f"output '{target}' must end in .onnx.")
    name_left_out_outputs(model)
    is_external = any(
        isinstance(value.const_value, ir.ExternalTensor)
        for graph in model.graphs()
        for value in graph.initializers.values()
    )
    moves = is_external and target.parent.resolve() != Path(source).parent.resolve()
    files = [target.with_name(target.name + ".data"), target] if moves else [target]
    data = files[0].name if moves else None
    write_files(
        files,
        lambda folder: _save(model, folder / target.name, data),
        overwrite=overwrite,
        accept=lambda folder: accept(folder / target.name, folder if moves else target.parent),
    )


def _save(model: ir.Model, path: Path, data: str | None) -> None:
    try:
        ir.save(model, path, external_data=data)
    except OSError:
        raise
    except Exception as error:  # of onnx-ir and protobuf, each its own
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = " ".join(str(cause).split()).rstrip(".")
        raise ModelError(f"{path.name!r} cannot be written: {reason or type(cause).__name__}.") from error

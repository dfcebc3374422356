"""What sliceport does, whatever the format of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from sliceport.arguments import read_names, read_options, read_path
from sliceport.formats import (
    ChangeOptions,
    CompareOptions,
    LowerOptions,
    Path,
    Result,
    RewriteOptions,
    choose_target,
    format_of,
)

if TYPE_CHECKING:
    from sliceport.directml.program import Program
    from sliceport.engines.comparison import Report


def lower(model: Any, **options: Unpack[LowerOptions]) -> Program:
    """Lower every Slice, StridedSlice and Split of a model to DirectML operators.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        options: See `sliceport.formats.LowerOptions`.

    Raises:
        ModelError: The model cannot be read.
        UsageError: An option does not fit the model, or no installed format takes it.
        InvalidSlice, UnsupportedSlice: With `strict`, the first refusal.
        MissingExtra: A package that reads the format is not installed.
    """
    return format_of(model).lower(model, **_read(options, LowerOptions))


def compare(model: Path, **options: Unpack[CompareOptions]) -> Report:
    """Run the slicing nodes of a model by several engines and compare their outputs bit for bit.

    Args:
        model: The model's file.
        options: See `sliceport.formats.CompareOptions`.

    Raises:
        ModelError: The model cannot be read or run.
        UsageError: An option does not fit the model, or no installed format takes it.
        MissingExtra: A package that reads or runs the model is not installed.
    """
    read_path(model, "model")
    return format_of(model).compare(model, **_read(options, CompareOptions))


def rewrite(
    model: Path, output: Path, passes: Sequence[str] | None = None, **options: Unpack[RewriteOptions]
) -> Result:
    """Simplify the slicing of a model into a new file. `onnx_ops.passes` does the same to a model in memory.

    Args:
        model: The model's file.
        output: The new file; it is written beside and renamed into place.
        passes: The names of the passes; by default those of the format.
        options: See `sliceport.formats.RewriteOptions`.

    Raises:
        ModelError: The model cannot be read, run or represented.
        UsageError: An option does not fit the model, or the file cannot be written.
        SliceportError: It could not be verified.
        MissingExtra: A package that reads or runs the model is not installed.
    """
    read_path(model, "model")
    read_path(output, "output")
    names = None if passes is None else read_names(passes, "passes")
    return format_of(model).rewrite(model, output, names, **_read(options, RewriteOptions))


def harden(model: Path, output: Path, target: str | None = None, **options: Unpack[ChangeOptions]) -> Result:
    """Rewrite the slicing that an engine computes wrongly or refuses, into a new file.

    Args:
        model: The model's file.
        output: The new file; it is written beside and renamed into place.
        target: The engine: `onnxruntime-dml`, the default for ONNX, or `openvino-cpu`, the default for OpenVINO IR.
        options: See `sliceport.formats.ChangeOptions`.

    Raises:
        ModelError: The model cannot be read, run or represented.
        UsageError: An option does not fit the model, or the file cannot be written.
        SliceportError: It could not be verified.
        MissingExtra: A package that reads or runs the model is not installed.
    """
    chosen, engine = choose_target(model, output, target)
    return chosen.harden(model, output, engine, **_read(options, ChangeOptions))


def _read(options: Mapping[str, Any], kind: Any) -> Any:
    return read_options(options, kind.__optional_keys__)

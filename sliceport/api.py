"""The functions of sliceport for models of every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from sliceport.arguments import check_path, read_names, read_options
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
        options: Options; `sliceport.formats.LowerOptions` lists them.

    Raises:
        ModelError: The model cannot be read.
        UsageError: An option does not fit the model, or no installed format reads the model.
        InvalidSlice, UnsupportedSlice: With `strict`, the first refusal.
        MissingExtra: A package that reads the format is not installed.
    """
    return format_of(model).lower(model, **_check_options(options, LowerOptions))


def compare(model: Path, **options: Unpack[CompareOptions]) -> Report:
    """Run the slicing nodes of a model on several engines and compare their outputs bit for bit.

    Args:
        model: The model's file.
        options: Options; `sliceport.formats.CompareOptions` lists them.

    Raises:
        ModelError: The model cannot be read or run.
        UsageError: An option does not fit the model, or no installed format reads the model.
        MissingExtra: A package that reads or runs the model is not installed.
    """
    check_path(model, "model")
    return format_of(model).compare(model, **_check_options(options, CompareOptions))


def rewrite(
    model: Path, output: Path, passes: Sequence[str] | None = None, **options: Unpack[RewriteOptions]
) -> Result:
    """Simplify the slicing of a model into a new file. `onnx_ops.passes` does the same to a model in memory.

    Args:
        model: The model's file.
        output: The new file; it is written under another name and then renamed.
        passes: The names of the passes; by default those of the format.
        options: Options; `sliceport.formats.RewriteOptions` lists them.

    Raises:
        ModelError: The model cannot be read, run or represented.
        UsageError: An option does not fit the model, or the file cannot be written.
        SliceportError: The result cannot be verified.
        MissingExtra: A package that reads or runs the model is not installed.
    """
    check_path(model, "model")
    check_path(output, "output")
    names = None if passes is None else read_names(passes, "passes")
    return format_of(model).rewrite(model, output, names, **_check_options(options, RewriteOptions))


def harden(model: Path, output: Path, target: str | None = None, **options: Unpack[ChangeOptions]) -> Result:
    """Rewrite the slicing that an engine computes wrongly or refuses, into a new file.

    Args:
        model: The model's file.
        output: The new file; it is written under another name and then renamed.
        target: The engine: `onnxruntime-dml`, the default for ONNX, or `openvino-cpu`, the default for OpenVINO IR.
        options: Options; `sliceport.formats.ChangeOptions` lists them.

    Raises:
        ModelError: The model cannot be read, run or represented.
        UsageError: An option does not fit the model, or the file cannot be written.
        SliceportError: The result cannot be verified.
        MissingExtra: A package that reads or runs the model is not installed.
    """
    chosen, engine = choose_target(model, output, target)
    return chosen.harden(model, output, engine, **_check_options(options, ChangeOptions))


def _check_options(options: Mapping[str, Any], kind: Any) -> Any:
    return read_options(options, kind.__optional_keys__)

"""The functions of sliceport for models of every format."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from sliceport.arguments import check_path, is_path, read_names, read_options
from sliceport.errors import UsageError
from sliceport.formats import (
    ChangeOptions,
    CompareOptions,
    LowerOptions,
    Path,
    Result,
    RewriteOptions,
    choose_target,
    format_of,
    formats,
)

if TYPE_CHECKING:
    from sliceport.checking import CheckReport
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


def check(
    model: Any, *, engines: Sequence[str] | None = None, engine_versions: Mapping[str, str] | None = None
) -> CheckReport:
    """Find the nodes of a model that are invalid, fragile, or have a known defect on an engine; no engine runs.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        engines: Names of engines or of their families, such as `openvino`; `all` adds every engine that users have
            reported defects of. By default the engines that the tests of sliceport run.
        engine_versions: Versions by engine or family; defects that do not concern them are left out.

    Raises:
        ModelError: The model cannot be read.
        UsageError: An engine is not known, or no installed format reads the model.
        MissingExtra: A package that reads the format is not installed.
    """
    from sliceport.checking import CheckReport, Selection

    names = None if engines is None else tuple(read_names(engines, "engines"))
    selection = Selection(names, dict(engine_versions or {}))
    if is_path(model) and os.path.isdir(model):
        raise UsageError(f"'{os.fspath(model)}' is a folder; sliceport batch check checks every model of a folder.")
    own = format_of(model)
    checked = [own.check(model)]
    for other in formats().values() if is_path(model) else ():
        for engine, suffixes in other.targets.items():
            if other is not own and os.fspath(model).endswith(suffixes) and selection.names_engine(engine):
                checked.append(other.check(model))
    return CheckReport(
        tuple(node for one in checked for node in one.nodes),
        tuple(engine for one in checked for engine in one.engines),
        selection,
    )


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

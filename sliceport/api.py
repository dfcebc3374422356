"""The functions of sliceport for models of every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sliceport.arguments import (
    check_path,
    is_path,
    read_input_shapes,
    read_inputs,
    read_mapping,
    read_names,
    read_seed,
)
from sliceport.defects.profiles import read_form_options
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.engines.sizes import InputShapes
from sliceport.errors import UsageError
from sliceport.formats import Arrays, Path, Result, choose_target, find_converters, format_of

if TYPE_CHECKING:
    from sliceport.checking import CheckReport
    from sliceport.directml.layouts import Layout
    from sliceport.directml.program import Program
    from sliceport.engines.comparison import Report


def lower(
    model: Any,
    *,
    input_shapes: InputShapes | None = None,
    feature_level: str | FeatureLevel = LATEST,
    input_layout: Layout = None,
    output_layout: Layout = None,
    views: bool = False,
    strict: bool = False,
) -> Program:
    """Lower every Slice, StridedSlice and Split of a model to DirectML operators.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        input_shapes: Sizes by input name, for inputs whose shape the model leaves open.
        feature_level: The DirectML feature level to lower for.
        input_layout: Memory layout of the tensors that are sliced. An axis order, such as `NHWC` or `0,2,3,1`, applies
            to tensors of its rank. A mapping gives strides in elements by tensor name. By default, tensors are packed.
        output_layout: Memory layout of all outputs of slicing nodes, in the same forms.
        views: Whether forward slices become views of their input's buffer if they start at a multiple of 16 bytes and
            have no `output_layout`.
        strict: Whether a node that cannot be lowered raises an error instead of being reported.

    Raises:
        ModelError: The model cannot be read.
        UsageError: An argument is malformed or does not fit the model, or no installed format reads the model.
        InvalidSlice, UnsupportedSlice: With `strict`, the error of the first node that cannot be lowered.
        MissingExtra: A package that reads the format is not installed.
    """
    program = format_of(model).lower(
        model,
        input_shapes=read_input_shapes(input_shapes),
        feature_level=feature_level,
        input_layout=input_layout,
        output_layout=output_layout,
        views=views,
    )
    if strict:
        program.raise_refused()
    return program


def check(
    model: Any,
    *,
    engines: Sequence[str] | None = None,
    engine_versions: Mapping[str, str] | None = None,
    input_shapes: InputShapes | None = None,
) -> CheckReport:
    """Find the nodes of a model that are invalid, fragile, or have a known defect on an engine; no engine runs.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        engines: Names of engines or of their families, such as `openvino`; `all` adds the engines that only
            reports of users mention. By default, the engines that the tests of sliceport run.
        engine_versions: Versions by engine or family. Defects of other versions are left out.
        input_shapes: Sizes by input name, for inputs whose shape the model leaves open.

    Raises:
        ModelError: The model cannot be read.
        UsageError: An argument is malformed, an engine is not known, or no installed format reads the model.
        MissingExtra: A package that reads the format is not installed.
    """
    from sliceport.checking import CheckReport, Selection

    names = None if engines is None else tuple(read_names(engines, "engines"))
    selection = Selection(names, read_mapping(engine_versions, "engine_versions", "engines to versions"))
    shapes = read_input_shapes(input_shapes)
    # If the caller names an engine that can read the file (OpenVINO reads ONNX), the engine's format also checks it.
    others, left_out = find_converters(model, selection.names_engine)
    reports = [checker.check(model, shapes) for checker in (format_of(model), *others)]
    return CheckReport(
        tuple(node for report in reports for node in report.nodes),
        tuple(engine for report in reports for engine in report.engines),
        selection,
        left_out,
    )


def compare(
    model: Any,
    *,
    executors: Sequence[str] | None = None,
    feature_level: str | FeatureLevel = LATEST,
    input_shapes: InputShapes | None = None,
    inputs: Arrays | None = None,
    seed: int = 0,
) -> Report:
    """Run the slicing nodes of a model on several engines and compare their outputs bit for bit.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        executors: Names of engines besides the reference; by default the format's engines and all ready validators.
        feature_level: The DirectML feature level to lower for.
        input_shapes: Sizes by input name, for inputs whose shape the model leaves open.
        inputs: Arrays for inputs of an ONNX model, by name; all other inputs get random arrays.
        seed: The seed of the random arrays.

    Raises:
        ModelError: The model cannot be read or run.
        UsageError: An argument is malformed or does not fit the model, or no installed format reads the model.
        MissingExtra: A package that reads or runs the model is not installed.
        MemoryError, ChildLost: The machine lacks memory, or ended a worker process.
    """
    options = _read_run_options(input_shapes, inputs, seed)
    return format_of(model).compare(model, executors=executors, feature_level=feature_level, **options)


def rewrite(
    model: Any,
    output: Path | None = None,
    *,
    passes: Sequence[str] | None = None,
    simplify: bool = False,
    verify: bool = False,
    overwrite: bool = False,
    input_shapes: InputShapes | None = None,
    inputs: Arrays | None = None,
    seed: int = 0,
) -> Result:
    """Simplify the slicing of a model.

    Args:
        model: A file's path, an `onnx.ModelProto` or an `onnx_ir.Model`; it is not changed.
        output: The file to write. It appears only once it is complete. With None, `Result.model` is the changed model,
            of the same type as `model`; a model that is given as a path needs an output.
        passes: The names of the passes. None runs the format's default passes.
        simplify: Whether to simplify all other nodes as well.
        verify: Whether to run both models, and to keep the changed one only if the outputs are equal.
        overwrite: Whether to replace the output and its weights.
        input_shapes: Sizes by input name to run the model with, for inputs whose shape it leaves open.
        inputs: Arrays by input name to run the model with; all other inputs get random arrays.
        seed: The seed of the random arrays.

    Raises:
        ModelError: The model cannot be read or run, or onnx-ir cannot represent it.
        UsageError: An argument is malformed or does not fit `model`, no format reads it, or `output` cannot be written.
        SliceportError: The result cannot be verified.
        MissingExtra: A package that reads or runs the model is not installed.
        MemoryError, ChildLost: The machine lacks memory, or ended a worker process.
    """
    _check_output(model, output)
    names = None if passes is None else read_names(passes, "passes")
    if not isinstance(simplify, bool):
        raise UsageError(f"simplify must be True or False, got {simplify!r}.")
    options = _read_run_options(input_shapes, inputs, seed)
    return format_of(model).rewrite(
        model, output, names, simplify=simplify, verify=verify, overwrite=overwrite, **options
    )


def harden(
    model: Any,
    output: Path | None = None,
    *,
    target: str | None = None,
    without: Sequence[str] = (),
    read_as: str | None = None,
    verify: bool | str = False,
    overwrite: bool = False,
    input_shapes: InputShapes | None = None,
    inputs: Arrays | None = None,
    seed: int = 0,
) -> Result:
    """Rewrite the nodes that an engine computes wrongly or refuses.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        output: The file to write. It appears only once it is complete. With None, `Result.model` is the changed model,
            of the same type as `model`; a model that is given as a path needs an output.
        target: The engine. The default is `onnxruntime-dml` for an ONNX result, and `openvino-cpu` for an OpenVINO
            result. `sliceport.defects.profiles.PROFILES` has other targets, such as `portable` for the form of slicing
            that every engine accepts.
        without: Forms of slicing that the engine lacks, besides those in its profile: names in
            `sliceport.defects.profiles.FORMS`, such as `steps`, `split` or `gather`. Only targets in `PROFILES` accept
            `without` and `read_as`.
        read_as: The meaning of a backward Slice that ends at the greatest integer of its type. With `standard`, it
            selects nothing; with `onnxruntime`, it continues to element 0. None leaves such a Slice unchanged.
        verify: Whether to run the original and the changed model, with several seeds and sizes, and to keep the changed
            model only if the outputs are equal. For an ONNX result, True stands for `onnxruntime-cpu`. With
            `onnxruntime-dml`, the models run on DirectML as well.
        overwrite: Whether to replace the output and its weights.
        input_shapes: Sizes by input name to run the model with, for inputs whose shape it leaves open.
        inputs: Arrays by input name to run the model with; all other inputs get random arrays.
        seed: The seed of the random arrays.

    Raises:
        ModelError: The model cannot be read or run, or onnx-ir cannot represent it.
        UsageError: An argument is malformed or does not fit `model`, no format reads it, or `output` cannot be written.
        SliceportError: The result cannot be verified.
        MissingExtra: A package that reads or runs the model is not installed.
        MemoryError, ChildLost: The machine lacks memory, or ended a worker process.
    """
    _check_output(model, output)
    format_, engine = choose_target(model, output, target)
    forms = read_form_options(engine, without, read_as)
    # The `harden` of a format without targets in `PROFILES` need not accept these options.
    form_options = {"without": forms, "read_as": read_as} if forms or read_as else {}
    options = _read_run_options(input_shapes, inputs, seed)
    return format_.harden(model, output, engine, verify=verify, overwrite=overwrite, **form_options, **options)


def _check_output(model: Any, output: Path | None) -> None:
    if output is not None:
        check_path(output, "output")
    elif is_path(model):  # only a changed model in memory can be returned
        raise UsageError(f"a model in a file needs an output: name the file to write the changed '{model}' to.")


def _read_run_options(input_shapes: Any, inputs: Any, seed: Any) -> dict[str, Any]:
    return {"input_shapes": read_input_shapes(input_shapes), "inputs": read_inputs(inputs), "seed": read_seed(seed)}

"""OpenVINO models as a format of `sliceport`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sliceport.arguments import is_path
from sliceport.directml.program import Program
from sliceport.engines.diagnosis import Diagnosis, diagnose_package
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.errors import ModelError, UsageError, unknown_name
from sliceport.formats import ManyFiles, Path, Result, check_fit, format_of
from sliceport.sandbox import progress
from sliceport.sandbox.place import refuse_data_files
from sliceport.verdict.verification import write_verified
from sliceport.wording import spell

if TYPE_CHECKING:
    import openvino as ov

    from ov_ext.running.ov_graph import OpenVINOGraph
    from sliceport.checking import NodeFindings
    from sliceport.engines.comparison import Report


_REWRITTEN = "OpenVINO does not read the file as it is, so its slicing was simplified first, as by sliceport rewrite"


class OpenVINO:
    """OpenVINO models: IR files and `openvino.Model`."""

    name = "openvino"
    title = "OpenVINO IR"
    suffixes = (".xml",)
    packages = ("openvino",)
    reference = ("openvino", "built-in operators by Model.evaluate; computes what is expected and always takes part")
    default_executors = ("openvino", "openvino-cpu", "ov_ext", "dml-emulator")
    targets: Mapping[str, tuple[str, ...]] = {"openvino-cpu": (".onnx",)}

    def passes(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return no passes: `rewrite` does not accept models of this format."""
        return {}, {}

    def diagnose(self) -> Iterator[Diagnosis]:
        """Yield the diagnosis of the package openvino and, if it works, the diagnosis of the operators in C++."""
        openvino = diagnose_package("openvino", 'run: pip install "sliceport[openvino]"')
        yield openvino
        if openvino.status == "ok":
            from ov_ext.operators.backends import diagnose_native

            yield diagnose_native()

    def declared_shapes(self, model: Any) -> DeclaredShapes:
        """Return the declared shapes of the inputs of `model`, which may be a path; see `DeclaresShapes`."""
        from ov_ext import read_model
        from ov_ext.model.read import input_dims

        return input_dims(read_model(model) if is_path(model) else model)

    def files_beside(self, model: Path) -> tuple[str, ...]:
        """Return the name of the weights file, which ends in .bin; () if `model` is not a readable IR file."""
        with suppress(OSError, ValueError):  # an empty file cannot be mapped
            if os.path.isfile(model):
                with open(model, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                    if data.find(b"<net") >= 0:  # the root element of an IR file
                        return (f"{os.path.splitext(os.path.basename(model))[0]}.bin",)
        return ()

    def lower(self, model: Any, *, input_shapes: InputShapes | None = None, **options: Any) -> Program:
        """Lower a model; see `Format`.

        A node that only adds or drops axes needs no operator, because the buffer stays the same. The program names
        values as `ov_ext.model.read.name_of` does.
        """
        # `_read` is called before the imports, because only its error says how to install openvino.
        ov_model = _read(model, input_shapes)
        from ov_ext.model.read import read_slicing_nodes
        from sliceport.directml.layouts import Options
        from sliceport.directml.lower import lower_nodes

        return lower_nodes(read_slicing_nodes(ov_model), Options.of(**options))

    def check(self, model: Any, input_shapes: InputShapes) -> NodeFindings:
        """Check the nodes of a model; see `ov_ext.defects.checking.check`."""
        from ov_ext import read_model  # noqa: F401 - its error says what to install if openvino is missing
        from ov_ext.defects.checking import check

        return check(model, input_shapes)

    def compare(self, model: Any, **options: Any) -> Report:
        """Compare engines on each node alone, on random data; see `ov_ext.running.compare`.

        Raises:
            UsageError: `inputs` are given, or an option is not valid (see `ov_ext.running.compare`).
            ModelError: The model cannot be read.
            MissingExtra: openvino is not installed.
        """
        from ov_ext import read_model  # noqa: F401 - its error says what to install if openvino is missing
        from ov_ext.running.compare import compare

        if options.pop("inputs", None):
            option = spell("inputs", "--input")
            raise UsageError(f"{option} is for ONNX models: nodes of OpenVINO models run alone, on random data.")
        return compare(model, **options)

    def open_graph(self, model: Any) -> OpenVINOGraph:
        """Read a model as a graph that `diff` can cut into smaller models; see `sliceport.search.graph.Diffable`."""
        ov_model = _read(model)  # first, because its error says what to install if openvino is missing
        from ov_ext.running.ov_graph import OpenVINOGraph

        return OpenVINOGraph(ov_model)

    def rewrite(self, model: Any, *_: Any, **__: Any) -> Result:
        """Raise UsageError, because `rewrite` accepts only ONNX models."""
        description = f"'{model}'" if is_path(model) else type(model).__name__
        raise UsageError(f"rewrite takes ONNX models, not OpenVINO IR, got {description}.")

    def harden(
        self,
        model: Any,
        output: Path | None,
        target: str,
        *,
        verify: bool | str = False,
        overwrite: bool = False,
        **options: Any,
    ) -> Result:
        """Rewrite the nodes that OpenVINO's CPU plugin computes wrongly; see `ov_ext.defects.hardening.harden`.

        With `verify`, the outputs of the hardened model are compared with those of the original. If they differ, the
        model is neither written nor returned. `options` are passed to `ov_ext.running.verify.verify_hardening`.

        Raises:
            UsageError: `verify` or `model` is not valid, or the output cannot be written or would replace a data file.
            ModelError: The model cannot be read.
            NotVerified: The verification came to no result.
            MissingExtra: openvino is not installed.
        """
        from ov_ext import read_model, write_model
        from ov_ext.defects.hardening import harden
        from ov_ext.running.verify import verify_hardening

        if not isinstance(verify, bool) and verify != target:
            raise unknown_name("verify", verify, [target])
        if output is not None and is_path(model):
            _check_keeps_data(model, output)
        progress.say(f"rewriting {model if is_path(model) else 'the model'}")
        hardened, notes = _read_or_rewrite(model)
        report = replace(harden(hardened), notes=notes, is_prepared=bool(notes))
        if verify and not report.is_changed:
            check_fit(model, options)

        def write(accept: Callable[..., bool]) -> None:
            if output is None:
                accept(hardened)
            else:
                write_model(hardened, output, overwrite=overwrite, accept=lambda file: accept(read_model(file)))

        verify_file = partial(verify_hardening, model, **options) if verify else None
        result = Result(report, write_verified(write, verify_file, is_changed=report.is_changed))
        return result if is_path(model) or not result.is_written else replace(result, model=hardened)


def _read(model: Any, shapes: InputShapes | None = None) -> ov.Model:
    """Read or copy a model; see `read_with_shapes`. Raise MissingExtra if openvino is not installed."""
    from ov_ext import read_model  # noqa: F401 - its error says what to install if openvino is missing
    from ov_ext.model.files import read_with_shapes

    return read_with_shapes(model, shapes)


def _read_or_rewrite(model: Any) -> tuple[ov.Model, tuple[str, ...]]:
    """Read a model, and return it with notes for the report.

    The slicing of a file of another format is rewritten if OpenVINO does not read the file as it is. OpenVINO does not
    convert some valid slicing, such as a Slice whose axes are empty (openvinotoolkit/openvino#33990).
    """
    try:
        return _read(model), ()
    except ModelError as error:
        source_format = format_of(model)
        if source_format.name == OpenVINO.name:
            raise
        with TemporaryDirectory(prefix="sliceport-") as folder:
            file = os.path.join(folder, "model.onnx")
            try:
                source_format.rewrite(model, file)
                return _read(file), (_REWRITTEN,)
            except ModelError:
                raise error from None


def _check_keeps_data(model: Path, output: Path) -> None:
    """Raise UsageError if the output would replace a data file of a model of another format."""
    format_ = format_of(model)
    if format_.name == OpenVINO.name or not isinstance(format_, ManyFiles):
        return
    data = [os.path.join(os.path.dirname(model), name) for name in format_.files_beside(model)]
    stem, _ = os.path.splitext(output)
    refuse_data_files([FilePath(output), FilePath(f"{stem}.bin")], data)  # The second one holds the weights.


FORMAT = OpenVINO()

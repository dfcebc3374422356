"""ONNX as a format of `sliceport`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sliceport.arguments import is_path
from sliceport.defects.profiles import PROFILES, Profile
from sliceport.engines.diagnosis import Diagnosis, diagnose_package
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.errors import unknown_name
from sliceport.formats import Changes, Path, Result, check_fit
from sliceport.sandbox import progress
from sliceport.wording import spell

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from onnx_ops.model.read import CheckedModel
    from onnx_ops.running.onnx_graph import OnnxGraph
    from sliceport.checking import NodeFindings
    from sliceport.directml.program import Program
    from sliceport.engines.comparison import Report
    from sliceport.verdict.verification import Verification


class ONNX:
    """ONNX models: files, `onnx.ModelProto` and `onnx_ir.Model`."""

    name = "onnx"
    title = "ONNX"
    suffixes = (".onnx", "")
    packages = ("onnx", "onnx_ir")
    reference = ("onnxruntime-cpu", "onnxruntime's CPU provider; computes what is expected and always takes part")
    default_executors = ("onnxruntime-cpu", "dml-emulator")
    targets: Mapping[str, tuple[str, ...]] = {"onnxruntime-dml": (), **dict.fromkeys(PROFILES, ())}

    def passes(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the default passes and the optional passes: one line about each pass, by its name."""
        from onnx_ops.passes import BY_DEFAULT, PASSES

        lines = {name: (kind.__doc__ or "").partition("\n")[0].rstrip(".") for name, kind in PASSES.items()}
        default = {name: lines[name] for name in BY_DEFAULT}
        return default, {name: line for name, line in lines.items() if name not in default}

    def diagnose(self) -> Iterator[Diagnosis]:
        """Yield a diagnosis of each package that ONNX needs, and of onnxruntime with its providers."""
        for module, name in (("onnx", "onnx"), ("onnx_ir", "onnx-ir"), ("onnxscript", "onnxscript")):
            yield diagnose_package(module, "run: pip install --force-reinstall sliceport", distribution=name)
        runtime = diagnose_package("onnxruntime", 'run: pip install "sliceport[onnxruntime]"')
        if runtime.status == "ok":
            import onnxruntime

            providers = ", ".join(onnxruntime.get_available_providers())
            runtime = replace(runtime, detail=f"{runtime.detail}: {providers}")
        yield runtime

    def declared_shapes(self, model: Any) -> DeclaredShapes:
        """Return the declared shapes of the inputs that a caller has to pass. External data are not read.

        Raises:
            ModelError: The model cannot be read, or a model in memory is not well-formed.
            UsageError: `model` is not a model.
        """
        from onnx_ops.model.declared import declared_shapes
        from onnx_ops.model.read import read_any, read_proto

        return declared_shapes((read_proto(model) if is_path(model) else read_any(model).proto).graph)

    def files_beside(self, model: Path) -> tuple[str, ...]:
        """Return the external data files; see `onnx_ops.model.declared.files_beside`."""
        from onnx_ops.model.declared import files_beside

        return files_beside(model)

    def node_ids(self, model: Path) -> dict[str, dict[str, str]]:
        """Return the ids of nodes in Model Explorer; see `onnx_ops.model.declared.node_ids`."""
        from onnx_ops.model.declared import node_ids

        return node_ids(model)

    def lower(self, model: Any, **options: Any) -> Program:
        """Lower a model; see `onnx_ops.lowering.lower`."""
        from onnx_ops.lowering import lower

        return lower(model, **options)

    def check(self, model: Any, input_shapes: InputShapes) -> NodeFindings:
        """Check the nodes of a model; see `onnx_ops.defects.checking.check`."""
        from onnx_ops.defects.checking import check

        return check(model, input_shapes)

    def compare(self, model: Any, **options: Any) -> Report:
        """Compare engines on a model; see `onnx_ops.running.compare.compare`."""
        from onnx_ops.running.compare import compare

        return compare(model, **options)

    def open_graph(self, model: Any) -> OnnxGraph:
        """Read a model for `diff`, which runs parts of it. See `read_complete_model` for the errors."""
        import gc

        from onnx_ops.model.io import from_proto
        from onnx_ops.running.onnx_graph import OnnxGraph
        from onnx_ops.running.runnable import read_complete_model

        complete = read_complete_model(model)
        proto, folder = complete.proto, complete.data_folder
        del complete
        # `complete.model` has reference cycles. Without a collection, they would keep a second copy of the weights that
        # are stored in the model's file.
        gc.collect()
        return OnnxGraph(proto, from_proto(proto, folder), folder)

    def rewrite(self, model: Any, output: Path | None, passes: Sequence[str] | None = None, **options: Any) -> Result:
        """Simplify the slicing of a model; see `rewrite` and `simplify` of `onnx_ops.passes`.

        Raises:
            UsageError, ModelError, NotVerified: See `_Change`. An unknown pass is a UsageError, too.
        """
        from onnx_ops.model.proto_walk import model_nodes
        from onnx_ops.passes import BY_DEFAULT, rewrite, simplify
        from onnx_ops.passes.rewrite.run import build_empty_report, may_need_rewriting
        from onnx_ops.running.verify import verify_rewriting

        names = BY_DEFAULT if passes is None else passes
        simplifies = options.get("simplify", False)
        change = _Change(model, output, options)
        if not simplifies and change.has_no_node(lambda proto: may_need_rewriting(model_nodes(proto))):
            return change.keep(build_empty_report(names))
        with change.copy() as copied:
            changed, report = simplify(copied, names) if simplifies else (copied, rewrite(copied, names))
            return change.finish(changed, report, verify_rewriting)

    def harden(self, model: Any, output: Path | None, target: str, **options: Any) -> Result:
        """Harden a model for DirectML, or write it in a portable form if `target` is one of `PROFILES`.

        Raises:
            UsageError: The option `verify` names an engine that does not verify. See `_Change` for other causes.
        """
        from onnx_ops.passes.analysis import may_need_hardening
        from onnx_ops.passes.directml.harden import (
            EMPTY_REPORT,
            harden_for_directml,
            may_add_in_another_order,
        )
        from onnx_ops.running.verify import verify_rewriting

        engine = options.get("verify", False)  # False to verify nothing, True for the default engine, or a name
        if not isinstance(engine, bool) and engine not in ("onnxruntime-cpu", "onnxruntime-dml"):
            raise unknown_name("verify", engine, ["onnxruntime-cpu", "onnxruntime-dml"])
        verify: Callable[..., Verification] = verify_rewriting
        if engine == "onnxruntime-dml":
            from sliceport.engines.side import read_side

            side = read_side(engine, self.name, spell("verify", "--verify"))
            side.engine.version()  # raises an error if DirectML is not installed
            verify = partial(verify_rewriting, target=side)
        if target in PROFILES:
            return _harden_portably(model, output, PROFILES[target], verify, options)
        change = _Change(model, output, options)
        if change.has_no_node(may_need_hardening):
            return change.keep(EMPTY_REPORT)
        with change.copy() as copied:
            report = harden_for_directml(copied)
            return change.finish(copied, report, partial(verify, accepts_rounding=may_add_in_another_order(report)))


def _harden_portably(
    model: Any, output: Path | None, profile: Profile, verify: Callable[..., Verification], options: Mapping[str, Any]
) -> Result:
    """Write a model in the portable form of a profile.

    If the model was converted to a later operator set and fails the verification, try again without this conversion.
    """
    from onnx_ops.model.io import to_ir
    from onnx_ops.passes.analysis import may_need_portable_form
    from onnx_ops.passes.portable.harden import (
        empty_report,
        enforce_standard_reading,
        harden_portably,
    )
    from sliceport.hardening import Hardening

    def verify_chosen_reading(source: CheckedModel, file: Path, **run_options: Any) -> Verification:
        if options.get("read_as") != "standard":
            return verify(source, file, **run_options)
        original = to_ir(source)
        # onnxruntime reads a backward Slice that ends at the greatest integer differently from the standard.
        enforce_standard_reading(original)
        return verify(original, file, **run_options)

    def attempt(*, raises_opset: bool) -> Result:
        change = _Change(model, output, options)
        if change.has_no_node(may_need_portable_form):
            return change.keep(empty_report(profile))
        with change.copy() as copied:
            without, read_as = options.get("without", ()), options.get("read_as")
            changed, report = harden_portably(copied, profile, without, read_as, raises_opset=raises_opset)
            return change.finish(changed, report, verify_chosen_reading)

    result = attempt(raises_opset=True)
    if result.is_written or not (isinstance(result.changes, Hardening) and result.changes.is_prepared):
        return result
    result = attempt(raises_opset=False)
    assert isinstance(result.changes, Hardening)
    note = "the operator set stays as it is, because the model with the later operator set failed the verification"
    return replace(result, changes=replace(result.changes, notes=(note, *result.changes.notes)))


class _Change:
    """The change of a model by `rewrite` or `harden`, and the verification if the options ask for one.

    Creating it reads the model: a file's path, a ModelProto or an `onnx_ir.Model`; see `read_to_change`.
    """

    def __init__(self, model: Any, output: Path | None, options: Mapping[str, Any]) -> None:
        from onnx_ops.model.io import read_to_change
        from onnx_ops.model.read import is_onnx_ir

        progress.say(f"rewriting {model if is_path(model) else 'the model'}")
        self._model, self._output, self._options = model, output, options
        self._must_verify, self._overwrite = bool(options.get("verify")), options.get("overwrite", False)
        self._is_ir = is_onnx_ir(model)
        # Of an onnx-ir model, only a verification needs the checked form, to compare the result with it.
        self._checked = None if self._is_ir and not self._must_verify else read_to_change(model)

    def has_no_node(self, may_need_change: Callable[[onnx.ModelProto], bool]) -> bool:
        """Return whether the model surely stays as it is, because `may_need_change` finds no node to change.

        `keep` then avoids onnx-ir, which takes long to load. A model with data files, which `write_proto` would not
        copy, and an onnx-ir model do not count.
        """
        checked = self._checked
        return not (checked is None or self._is_ir or checked.findings.data_files or may_need_change(checked.proto))

    def keep(self, report: Changes) -> Result:
        """Write or return the model as it is."""
        from onnx_ops.model.io import write_proto
        from sliceport.verdict.verification import NOTHING_CHANGED

        assert self._checked is not None
        proto = self._checked.proto
        if self._must_verify:
            check_fit(self._model, self._options)
        if self._output is not None:
            write_proto(proto, self._output, overwrite=self._overwrite)
        verification = NOTHING_CHANGED if self._must_verify else None
        return Result(report, verification, None if is_path(self._model) else proto)

    @contextmanager
    def copy(self) -> Iterator[ir.Model]:
        """Inside the context, give a copy of the model to change, which shares the weights with an onnx-ir model."""
        from onnx_ops.model.io import clone_sorted, data_closed, to_ir

        copied = clone_sorted(self._model) if self._is_ir or self._checked is None else to_ir(self._checked)
        with data_closed(copied):
            yield copied

    def finish(self, changed: ir.Model, report: Changes, verify: Callable[..., Verification]) -> Result:
        """Write or return the changed model if it passes the verification, or if none is asked for.

        `verify` compares the original model with a file of the changed model. A model that is returned has the type of
        the original, and is never the given object itself.

        Raises:
            NotVerified: The verification came to no result.
        """
        from onnx_ops.model.io import to_proto, write_model
        from sliceport.verdict.verification import write_verified

        if self._must_verify and not report.is_changed:
            check_fit(self._model, self._options)
        names = ("input_shapes", "inputs", "seed")
        run_options = {name: self._options[name] for name in names if name in self._options}

        def compare(file: FilePath, data_folder: FilePath) -> Verification:
            return verify(self._checked, file, data_folder=data_folder, **run_options)

        def write(accept: Callable[..., bool]) -> None:
            if self._output is not None:
                write_model(changed, self._output, overwrite=self._overwrite, accept=accept)
            elif self._must_verify and report.is_changed:
                with TemporaryDirectory(prefix="sliceport-") as scratch:
                    write_model(changed, os.path.join(scratch, "model.onnx"), accept=accept)

        verification = write_verified(write, compare if self._must_verify else None, is_changed=report.is_changed)
        result = Result(report, verification)
        if is_path(self._model) or not result.is_written:
            return result
        return replace(result, model=changed if self._is_ir else to_proto(changed))


FORMAT = ONNX()

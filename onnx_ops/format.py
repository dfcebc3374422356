"""ONNX as a format of `sliceport`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sliceport.arguments import is_path
from sliceport.defects.profiles import PROFILES, Profile
from sliceport.engines.diagnosis import Diagnosis, diagnose_package
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.errors import unknown_name
from sliceport.formats import Path, Result
from sliceport.sandbox import progress
from sliceport.wording import spell

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from onnx_ops.model.read import CheckedModel
    from onnx_ops.passes import Rewriting
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
            UsageError, ModelError, NotVerified: See `_change`. An unknown pass is a UsageError, too.
        """
        from onnx_ops.model.proto_walk import model_nodes
        from onnx_ops.passes import BY_DEFAULT, rewrite, simplify
        from onnx_ops.passes.analysis import may_need_rewriting
        from onnx_ops.passes.rewrite.run import build_empty_report
        from onnx_ops.running.verify import verify_rewriting

        names = BY_DEFAULT if passes is None else passes
        simplifies = options.get("simplify", False)

        def change(copied: ir.Model) -> tuple[ir.Model, Rewriting]:
            return simplify(copied, names) if simplifies else (copied, rewrite(copied, names))

        return _change(
            model,
            output,
            can_change=lambda proto: simplifies or may_need_rewriting(model_nodes(proto)),
            report_nothing=lambda: build_empty_report(names),
            change=change,
            verify=verify_rewriting,
            options=options,
        )

    def harden(self, model: Any, output: Path | None, target: str, **options: Any) -> Result:
        """Harden a model for DirectML, or write it in a portable form if `target` is one of `PROFILES`.

        Raises:
            UsageError: The option `verify` names an engine that does not verify. See `_change` for other causes.
            ModelError, NotVerified: See `_change`.
        """
        from onnx_ops.passes.analysis import may_need_hardening
        from onnx_ops.passes.directml.harden import (
            build_hardening_report,
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
        return _change(
            model,
            output,
            can_change=may_need_hardening,
            report_nothing=lambda: build_hardening_report(0),
            change=lambda copied: (copied, harden_for_directml(copied)),
            verify=verify,
            accepts_rounding=may_add_in_another_order,
            options=options,
        )


def _harden_portably(
    model: Any, output: Path | None, profile: Profile, verify: Callable[..., Verification], options: Mapping[str, Any]
) -> Result:
    """Write a model in the portable form of a profile.

    If the model was converted to a later operator set and fails the verification, try again without this conversion.
    """
    from onnx_ops.model.io import to_ir
    from onnx_ops.passes.analysis import may_need_portable_form
    from onnx_ops.passes.portable.harden import (
        build_form_report,
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
        return _change(
            model,
            output,
            can_change=may_need_portable_form,
            report_nothing=lambda: build_form_report(profile, 0),
            change=lambda copied: harden_portably(
                copied, profile, options.get("without", ()), options.get("read_as"), raises_opset=raises_opset
            ),
            verify=verify_chosen_reading,
            options=options,
        )

    result = attempt(raises_opset=True)
    if result.is_written or not (isinstance(result.changes, Hardening) and result.changes.is_prepared):
        return result
    result = attempt(raises_opset=False)
    assert isinstance(result.changes, Hardening)
    note = "the operator set stays as it is, because the model with the later operator set failed the verification"
    return replace(result, changes=replace(result.changes, notes=(note, *result.changes.notes)))


def _change(
    model: Any,
    output: Path | None,
    can_change: Callable[[onnx.ModelProto], bool],
    report_nothing: Callable[[], Any],
    change: Callable[[ir.Model], tuple[ir.Model, Any]],
    verify: Callable[..., Verification],
    options: Mapping[str, Any],
    accepts_rounding: Callable[[Any], bool] | None = None,
) -> Result:
    """Change a model, and write or return the result. If the options ask for a verification, the result must pass it.

    Args:
        model: A file's path, a ModelProto or an `onnx_ir.Model`.
        output: The file to write, if any.
        can_change: A function that returns whether `change` may change the model.
        report_nothing: A function that returns the report for a model that is not changed.
        change: A function that changes a copy of the model, and returns the result and a report.
        verify: A function that compares the original model with a file of the changed model.
        options: The options of the command.
        accepts_rounding: A function of the report that returns `accepts_rounding` for `verify`.

    Returns:
        The report, the verification if there is one, and the changed model. The changed model is None if `model` is a
        path or the verification fails. Otherwise it has the type of `model`, and is never the given object itself.

    Raises:
        UsageError, ModelError: See `read_to_change` and `write_model`. The errors of `change` pass through.
        NotVerified: The verification came to no result; see `verify_or_refuse`.
    """
    from onnx_ops.model.io import clone_sorted, data_closed, read_to_change, to_ir, to_proto, write_model, write_proto
    from onnx_ops.model.read import is_onnx_ir
    from onnx_ops.running.verify import write_verified
    from sliceport.verdict.verification import NOTHING_CHANGED

    progress.say(f"rewriting {model if is_path(model) else 'the model'}")
    must_verify, overwrite = bool(options.get("verify")), options.get("overwrite", False)
    is_ir = is_onnx_ir(model)
    # For an onnx-ir model, only a verification needs `checked`: it compares the result with the original model.
    checked = None if is_ir and not must_verify else read_to_change(model)
    # This branch avoids onnx-ir, which takes long to load. It excludes data files, which `write_proto` would not copy.
    if checked is not None and not (is_ir or checked.findings.data_files or can_change(checked.proto)):
        if output is not None:
            write_proto(checked.proto, output, overwrite=overwrite)
        return Result(
            report_nothing(), NOTHING_CHANGED if must_verify else None, None if is_path(model) else checked.proto
        )
    copied = clone_sorted(model) if is_ir or checked is None else to_ir(checked)  # a clone shares the weights
    verification = NOTHING_CHANGED if must_verify else None
    with data_closed(copied), nullcontext("") if output else TemporaryDirectory(prefix="sliceport-") as scratch:
        changed, report = change(copied)
        if must_verify and report.is_changed:
            assert checked is not None
            file = os.path.join(scratch, "model.onnx") if output is None else output
            run_options = {name: options[name] for name in ("input_shapes", "inputs", "seed") if name in options}
            if accepts_rounding is not None:
                run_options["accepts_rounding"] = accepts_rounding(report)
            verification = write_verified(changed, file, verify, source=checked, overwrite=overwrite, **run_options)
        elif output is not None:
            write_model(changed, output, overwrite=overwrite)
    if is_path(model) or (verification is not None and not verification.is_equal):
        return Result(report, verification)
    return Result(report, verification, changed if is_ir else to_proto(changed))


FORMAT = ONNX()

"""ONNX as a format of `sliceport`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from sliceport import progress
from sliceport.arguments import read_names
from sliceport.diagnosis import Diagnosis, diagnose_package
from sliceport.formats import (
    ChangeOptions,
    CompareOptions,
    DeclaredShapes,
    LowerOptions,
    Path,
    Result,
    RewriteOptions,
    RunOptions,
)

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from onnx_ops.model.read import CheckedModel as ReadModel
    from onnx_ops.passes import Rewriting
    from onnx_ops.verify.verify import Verification
    from sliceport.checking import CheckedModel
    from sliceport.directml.program import Program
    from sliceport.engines.comparison import Report
    from sliceport.engines.model_run import ModelRun


class ONNX:
    """ONNX models: files, `onnx.ModelProto` and `onnx_ir.Model`."""

    name = "onnx"
    title = "ONNX"
    suffixes = (".onnx", "")
    packages = ("onnx", "onnx_ir")
    reference = ("onnxruntime-cpu", "onnxruntime's CPU provider; computes what is expected and always takes part")
    default_executors = ("onnxruntime-cpu", "dml-emulator")
    targets: Mapping[str, tuple[str, ...]] = {"onnxruntime-dml": ()}
    optimizers: Mapping[str, str] = {
        "onnxscript": "onnxscript's optimizer; the default",
        "onnxslim": "OnnxSlim, if it is installed",
        "onnxruntime": "onnxruntime's CPU provider computes what follows from constants, floats too",
    }

    def passes(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the default and the optional passes, each as names with one line about the pass."""
        from onnx_ops.passes import BY_DEFAULT, PASSES

        lines = {name: (kind.__doc__ or "").partition("\n")[0].rstrip(".") for name, kind in PASSES.items()}
        return (
            {name: line for name, line in lines.items() if name in BY_DEFAULT},
            {name: line for name, line in lines.items() if name not in BY_DEFAULT},
        )

    def diagnose(self) -> Iterator[Diagnosis]:
        """Diagnose the packages of ONNX, and onnxruntime with its providers."""
        for module, name in (("onnx", "onnx"), ("onnx_ir", "onnx-ir"), ("onnxscript", "onnxscript")):
            yield diagnose_package(module, "run: pip install --force-reinstall sliceport", distribution=name)
        runtime = diagnose_package("onnxruntime", 'run: pip install "sliceport[onnxruntime]"')
        if runtime.status == "ok":
            import onnxruntime

            providers = ", ".join(onnxruntime.get_available_providers())
            runtime = replace(runtime, detail=f"{runtime.detail}: {providers}")
        yield runtime

    def declared_shapes(self, model: Path) -> DeclaredShapes:
        """Return the declared shapes of inputs; see `onnx_ops.model.declared.declared_shapes`."""
        from onnx_ops.model.declared import declared_shapes

        return declared_shapes(model)

    def files_beside(self, model: Path) -> tuple[str, ...]:
        """Return the external data files; see `onnx_ops.model.declared.files_beside`."""
        from onnx_ops.model.declared import files_beside

        return files_beside(model)

    def lower(self, model: Any, **options: Unpack[LowerOptions]) -> Program:
        """Lower a model; see `onnx_ops.lower`."""
        from onnx_ops.lowering import lower

        return lower(model, **options)

    def check(self, model: Any) -> CheckedModel:
        """Check the nodes of a model; see `onnx_ops.checking.check`."""
        from onnx_ops.checking import check

        return check(model)

    def compare(self, model: Path, **options: Unpack[CompareOptions]) -> Report:
        """Compare executors on a model; see `onnx_ops.verify.compare`."""
        from onnx_ops.verify import compare

        return compare(model, **options)

    def run_on_directml(self, model: Path, *, against: bool, **options: Unpack[RunOptions]) -> ModelRun:
        """Run a model on the DirectML provider; see `onnx_ops.verify.run_model`."""
        from onnx_ops.verify.run_model import run_model

        return run_model(model, against=against, **options)

    def rewrite(
        self, model: Path, output: Path, passes: Sequence[str] | None = None, **options: Unpack[RewriteOptions]
    ) -> Result:
        """Simplify the slicing of a model; see `onnx_ops.passes.rewrite`, `simplify` there and `verify_rewriting`."""
        from onnx_ops.passes import BY_DEFAULT, rewrite, simplify
        from onnx_ops.passes.first_look import can_rewrite
        from onnx_ops.passes.rewrite import report_nothing
        from onnx_ops.verify.verify import verify_rewriting

        names = BY_DEFAULT if passes is None else passes
        optimizers = self._read_optimizers(options.get("simplify", False))

        def change(before: ir.Model) -> tuple[ir.Model, Rewriting]:
            return simplify(before, names, optimizers) if optimizers else (before, rewrite(before, names))

        checked = _read(model, output, lambda proto: bool(optimizers) or can_rewrite(proto), options)
        return (
            Result(report_nothing(names))
            if checked is None
            else _change(checked, output, change, verify_rewriting, options)
        )

    def _read_optimizers(self, simplify: bool | str | Sequence[str]) -> Sequence[str]:
        """Return the optimizers that the option `simplify` names."""
        if isinstance(simplify, bool):
            return list(self.optimizers)[: int(simplify)]
        return [simplify] if isinstance(simplify, str) else read_names(simplify, "simplify")

    def harden(self, model: Path, output: Path, target: str, **options: Unpack[ChangeOptions]) -> Result:  # noqa: ARG002
        """Harden a model for DirectML; see `onnx_ops.passes.harden_for_directml` and `verify_hardening`."""
        from onnx_ops.passes import harden_for_directml
        from onnx_ops.passes.first_look import can_harden
        from onnx_ops.passes.harden_directml import build_hardening_report
        from onnx_ops.verify.verify_directml import verify_hardening

        checked = _read(model, output, can_harden, options)
        if checked is None:
            return Result(build_hardening_report(0))
        return _change(checked, output, lambda before: (before, harden_for_directml(before)), verify_hardening, options)


def _read(
    model: Path, output: Path, can_change: Callable[[onnx.ModelProto], bool], options: ChangeOptions
) -> ReadModel | None:
    """Read a model to change; return None if nothing can change in it, after writing it as it is."""
    from onnx_ops.model.io import read_to_change, write_proto
    from onnx_ops.passes.first_look import is_kept_as_read

    progress.say(f"rewriting {model}")
    checked = read_to_change(model)
    if not (options.get("verify") or can_change(checked.proto)) and is_kept_as_read(checked.proto, checked.findings):
        write_proto(checked.proto, output, overwrite=options.get("overwrite", False))
        return None
    return checked


def _change(
    checked: ReadModel,
    output: Path,
    change: Callable[[ir.Model], tuple[ir.Model, Any]],
    verify: Callable[..., Verification],
    options: ChangeOptions,
) -> Result:
    """Change a model and write it; with the option `verify` only if it passes."""
    from onnx_ops.model.io import data_closed, to_ir, write_model
    from onnx_ops.verify.verify import write_verified

    overwrite = options.get("overwrite", False)
    before = to_ir(checked)
    with data_closed(before):
        changed, report = change(before)
        if not options.get("verify"):
            write_model(changed, output, source=checked.path, overwrite=overwrite)
            return Result(report)
        verification = write_verified(
            changed,
            output,
            verify,
            source=checked,
            overwrite=overwrite,
            input_shapes=options.get("input_shapes"),
            inputs=options.get("inputs"),
            seed=options.get("seed", 0),
        )
        return Result(report, verification)


FORMAT = ONNX()

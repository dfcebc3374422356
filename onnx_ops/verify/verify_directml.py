"""Verification of a model that was hardened for onnxruntime's DirectML provider, on that provider."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx_ops.verify.directml_provider import open_provider
from onnx_ops.verify.find_nodes import is_adapters_fault
from onnx_ops.verify.run_model import run_on
from onnx_ops.verify.runnable import Runnable, read_complete_model
from onnx_ops.verify.verify import verify_rewriting
from sliceport.device import Device
from sliceport.engines.engine import Array
from sliceport.engines.model_run import Finding, ModelRun, describe_transient
from sliceport.progress import say
from sliceport.verdict.verification import Difference, InputRun, NotVerified, Verification


@dataclass(frozen=True)
class HardeningVerification(Verification):
    """The result of a verification on the DirectML provider.

    Attributes:
        before: The runs of the original model on the provider, compared with its outputs on the CPU provider. Their
            findings are the reasons for hardening.
        after: The runs of the hardened model, compared with the outputs of the original model on the CPU provider.

    Both are empty if the models differ on the CPU provider, or if the adapter cannot compile hardened nodes.
    """

    before: tuple[ModelRun, ...] = ()
    after: tuple[ModelRun, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON values, with the first run of each model on the provider."""
        more = {name: runs[0].to_json() for name, runs in (("before", self.before), ("after", self.after)) if runs}
        return super().to_json() | more

    def __str__(self) -> str:
        # If DirectML ran, the findings of `after` below describe the differences, so they are not listed here.
        lines = [*self.notes] if self.after and self.differences else [super().__str__()]
        for title, runs in (("before", self.before), ("after", self.after)):
            for run in runs:
                lines.append(f"{title}: {run.summary}")
                lines += [f"  {finding.message}" for finding in run.findings]
                lines += [f"  {describe_transient(failure)}" for failure in dict.fromkeys(run.transient)]
        return "\n".join(lines)


def verify_hardening(
    before: Any,
    after: str | os.PathLike[str],
    *,
    data_folder: str | os.PathLike[str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    accepts_rounding: bool = False,
) -> HardeningVerification:
    """Compare a model with its hardened form.

    On onnxruntime's CPU provider, both must pass `verify_rewriting`. On its DirectML provider, the hardened model must
    compute what the original model computes on the CPU provider, within a tolerance for rounding. Other seeds
    and sizes are tried only on the CPU provider. If the DirectML provider refuses only nodes that its adapter cannot
    compile, the result is that of the CPU provider, with a note that counts these nodes by operator.

    The arguments are those of `verify_rewriting`.

    Raises:
        DeviceError: DirectML is not installed, or the program that hosts it failed.
        NotVerified: The DirectML provider does not run the hardened model; see also `verify_rewriting`.
        UsageError, ModelError, MissingExtra, MemoryError, ChildLost: See `verify_rewriting`.
    """
    with open_provider() as dml:
        on_cpu = verify_rewriting(
            before,
            after,
            data_folder=data_folder,
            input_shapes=input_shapes,
            inputs=inputs,
            seed=seed,
            accepts_rounding=accepts_rounding,
        )
        result = HardeningVerification(on_cpu.runs, on_cpu.differences, on_cpu.notes, on_cpu.equality)
        if not on_cpu.is_equal:
            return result
        runs = tuple(run for run in on_cpu.runs if not run.is_repeat)
        say("running the original model on DirectML")
        runs_before = _run_all(dml, read_complete_model(before), runs, locates=False)
        dml.transient.clear()  # Otherwise failures that a retry has overcome would be reported for both models.
        say("running the hardened model on DirectML")
        runs_after = _run_all(dml, read_complete_model(after, data_folder), runs, locates=True)
    refusals = [finding for run in runs_after for finding in run.findings if finding.kind == "refused"]
    if refusals and all(map(is_adapters_fault, refusals)):
        return replace(result, notes=(*on_cpu.notes, _describe_untried_nodes(refusals)))
    if refusals:
        raise NotVerified(" ".join(finding.message for finding in refusals))
    differences = tuple(
        Difference(output.name, f"output {output.name!r} differs on the DirectML provider{cpu_run.label}.")
        for cpu_run, run in zip(runs, runs_after, strict=True)
        for output in run.outputs
        if output.status == "different"
    )
    return replace(result, differences=differences, before=runs_before, after=runs_after)


def _describe_untried_nodes(refusals: Sequence[Finding]) -> str:
    """Return a note about the nodes that only the adapter refuses. All refusals without a node count as one."""
    op_types = {finding.node: finding.op_type or "unnamed part" for finding in refusals}
    listed = ", ".join(f"{count} {op_type}" for op_type, count in Counter(op_types.values()).most_common())
    return f"not tried on DirectML, because the adapter cannot compile: {listed}."


def _run_all(dml: Device, runnable: Runnable, runs: Sequence[InputRun], *, locates: bool) -> tuple[ModelRun, ...]:
    """Run a model on DirectML with the inputs of each CPU run, and compare the outputs of both runs."""
    return tuple(run_on(dml, runnable, run.inputs, run.outputs, locates=locates) for run in runs)

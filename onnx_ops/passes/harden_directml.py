"""Making a model run right on onnxruntime's DirectML provider."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ops.model.defaults import defaults_aside
from onnx_ops.model.nodes import SLICING
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.contested_nodes import unmark
from onnx_ops.passes.matmul_for_directml import MatMulForDirectMLPass
from onnx_ops.passes.reshape_for_directml import ReshapeForDirectMLPass
from onnx_ops.passes.slicing_for_directml import SliceForDirectMLPass, SplitForDirectMLPass
from onnx_ops.passes.walk import nodes_of
from sliceport.defects.engines import ONNXRUNTIME_DML
from sliceport.defects.onnxruntime import DIRECTML_PROVIDER
from sliceport.hardening import Change, Hardening, InvalidNode

HARDEN_DIRECTML: tuple[type[NodePass], ...] = (
    SplitForDirectMLPass,
    SliceForDirectMLPass,
    ReshapeForDirectMLPass,
    MatMulForDirectMLPass,
)


def harden_for_directml(model: ir.Model) -> Hardening:
    """Replace what onnxruntime-directml 1.24.4 computes wrongly or refuses by standard ONNX that it computes right.

    Args:
        model: The model; it is changed.

    Returns:
        What was changed, and why.
    """
    nodes = sum(1 for _ in nodes_of(model, *SLICING))
    if not any(nodes_of(model, *(name for kind in HARDEN_DIRECTML for name in kind.op_types))):
        return build_hardening_report(nodes)
    with defaults_aside(model):
        analysis = Analysis(model)
        invalid = analysis.value_info.list_invalid()
        changes = _run([kind() for kind in HARDEN_DIRECTML], model, analysis)
        unmark(model)
    return build_hardening_report(nodes, changes, invalid)


def build_hardening_report(
    nodes: int, changes: Sequence[Change] = (), invalid: Sequence[InvalidNode] = ()
) -> Hardening:
    """Build the report of a model. `nodes` is the number of its slicing nodes."""
    return Hardening(ONNXRUNTIME_DML, DIRECTML_PROVIDER[-1], nodes, tuple(changes), tuple(invalid))


def _run(passes: Sequence[NodePass], model: ir.Model, analysis: Analysis) -> list[Change]:
    """Run passes until none of them finds anything more: once a contested node is rewritten, its sizes are known."""
    fixed: list[list[Change]] = [[] for _ in passes]
    modified = True
    while modified:
        modified = False
        for each, done in zip(passes, fixed, strict=True):
            if not analysis.is_current:
                analysis.infer()
            each.share(analysis)
            modified |= each(model).modified
            done += [change for change in each.changes if change.replacement is not None]
    unfixed = [[change for change in each.changes if change.replacement is None] for each in passes]
    return [change for pair in zip(fixed, unfixed, strict=True) for changes in pair for change in changes]

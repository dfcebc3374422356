"""Making a model run correctly on onnxruntime's DirectML provider."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import onnx_ir as ir

from onnx_ops.model.nodes import SLICING
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.base import SlicingPass, run_until_stable
from onnx_ops.passes.contested_nodes import ready_for_passes
from onnx_ops.passes.directml.aligned_run import AlignedRunForDirectMLPass
from onnx_ops.passes.directml.conv_transpose import ConvTransposeForDirectMLPass
from onnx_ops.passes.directml.declared_sizes import DeclaredSizesForDirectMLPass, LoopForDirectMLPass
from onnx_ops.passes.directml.einsum import EinsumForDirectMLPass
from onnx_ops.passes.directml.empty_fill import EmptyFillForDirectMLPass
from onnx_ops.passes.directml.matmul import MatMulForDirectMLPass
from onnx_ops.passes.directml.reshape import ReshapeForDirectMLPass
from onnx_ops.passes.directml.slicing import SliceForDirectMLPass, SplitForDirectMLPass
from sliceport.defects.engines import ONNXRUNTIME_DML, VERSIONS
from sliceport.hardening import Change, Hardening, InvalidNode

HARDEN_DIRECTML: tuple[type[SlicingPass], ...] = (
    LoopForDirectMLPass,  # first, because the next pass opens the declared sizes that this pass looks for
    DeclaredSizesForDirectMLPass,
    SplitForDirectMLPass,
    SliceForDirectMLPass,
    EmptyFillForDirectMLPass,
    ReshapeForDirectMLPass,
    ConvTransposeForDirectMLPass,
    EinsumForDirectMLPass,
    MatMulForDirectMLPass,
    AlignedRunForDirectMLPass,
)
"""The passes that run, in this order, until none of them changes the model any more."""


def harden_for_directml(model: ir.Model) -> Hardening:
    """Rewrite the nodes that onnxruntime-directml 1.24.4 computes wrongly, refuses or crashes on, if a fix is known.

    Args:
        model: The model; it is changed.

    Returns:
        The nodes that were changed or could not be fixed, each with its defects; and the invalid nodes.

    Raises:
        ModelError: The model is not well-formed.
    """
    with ready_for_passes(model):
        analysis = Analysis(model)
        node_count = len(analysis.nodes_of(*SLICING))
        invalid = analysis.value_info.list_invalid()
        changes = chain.from_iterable(run_until_stable([kind() for kind in HARDEN_DIRECTML], analysis))
    return build_hardening_report(node_count, tuple(changes), invalid)


def may_add_in_another_order(report: Hardening) -> bool:
    """Return whether a new MatMul may add in another order than the node before: an Einsum, or a MatMul by a vector."""
    rewritten = [change for change in report.changes if change.replacement is not None]
    # A MatMulInteger or QLinearMatMul adds integers, in any order with the same result.
    return any(
        change.op == "Einsum" or (change.op == "MatMul" and "matmul by a vector" in [one.id for one in change.defects])
        for change in rewritten
    )


def build_hardening_report(
    node_count: int, changes: Sequence[Change] = (), invalid: Sequence[InvalidNode] = ()
) -> Hardening:
    """Build the report of a model. `node_count` is the number of its slicing nodes."""
    newest_version = VERSIONS[ONNXRUNTIME_DML][-1]  # the newest one on which the defects were tried
    return Hardening(ONNXRUNTIME_DML, newest_version, node_count, tuple(changes), tuple(invalid))

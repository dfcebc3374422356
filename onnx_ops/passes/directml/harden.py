"""Making a model run correctly on onnxruntime's DirectML provider."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.passes.base import SlicingPass, harden_by
from onnx_ops.passes.directml.aligned_run import AlignedRunForDirectMLPass
from onnx_ops.passes.directml.conv_transpose import ConvTransposeForDirectMLPass
from onnx_ops.passes.directml.declared_sizes import DeclaredSizesForDirectMLPass, LoopForDirectMLPass
from onnx_ops.passes.directml.einsum import EinsumForDirectMLPass
from onnx_ops.passes.directml.empty_fill import EmptyFillForDirectMLPass
from onnx_ops.passes.directml.matmul import MatMulForDirectMLPass
from onnx_ops.passes.directml.reshape import ReshapeForDirectMLPass
from onnx_ops.passes.directml.slicing import SliceForDirectMLPass, SplitForDirectMLPass
from sliceport.defects.engines import ONNXRUNTIME_DML, VERSIONS
from sliceport.hardening import Hardening

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


EMPTY_REPORT = Hardening(ONNXRUNTIME_DML, VERSIONS[ONNXRUNTIME_DML][-1], 0, ())
"""The report of a model without nodes. The defects were tried on the newest version."""


def harden_for_directml(model: ir.Model) -> Hardening:
    """Rewrite the nodes that onnxruntime-directml 1.24.4 computes wrongly, refuses or crashes on, if a fix is known.

    Args:
        model: The model; it is changed.

    Returns:
        The nodes that were changed or could not be fixed, each with its defects; and the invalid nodes.

    Raises:
        ModelError: The model is not well-formed.
    """
    return harden_by(model, [kind() for kind in HARDEN_DIRECTML], EMPTY_REPORT)


def may_add_in_another_order(report: Hardening) -> bool:
    """Return whether a new MatMul may add in another order than the node before: an Einsum, or a MatMul by a vector."""
    rewritten = [change for change in report.changes if change.replacement is not None]
    # A MatMulInteger or QLinearMatMul adds integers, in any order with the same result.
    return any(
        change.op == "Einsum" or (change.op == "MatMul" and "matmul by a vector" in [one.id for one in change.defects])
        for change in rewritten
    )

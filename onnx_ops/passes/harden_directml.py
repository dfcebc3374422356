"""Making a model run right on onnxruntime's DirectML provider."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import SLICING
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.reshape_for_directml import ReshapeForDirectMLPass
from onnx_ops.passes.slice_for_directml import SliceForDirectMLPass
from onnx_ops.passes.split_for_directml import SplitForDirectMLPass
from onnx_ops.passes.walk import nodes_of
from sliceport.defects.engines import ONNXRUNTIME_DML
from sliceport.defects.onnxruntime import DIRECTML_PROVIDER
from sliceport.hardening import Hardening

HARDEN_DIRECTML: tuple[type[NodePass], ...] = (SplitForDirectMLPass, SliceForDirectMLPass, ReshapeForDirectMLPass)


def harden_for_directml(model: ir.Model) -> Hardening:
    """Replace what onnxruntime-directml 1.24.4 computes wrongly or refuses by standard ONNX that it computes right.

    Args:
        model: The model; it is changed.

    Returns:
        What was changed, and why.
    """
    nodes = sum(1 for kind in SLICING for _ in nodes_of(model, kind))
    passes = [kind() for kind in HARDEN_DIRECTML]
    for done in passes:
        done(model)
    return Hardening(
        ONNXRUNTIME_DML,
        DIRECTML_PROVIDER[-1],
        nodes,
        tuple(change for done in passes for change in done.changes),
    )

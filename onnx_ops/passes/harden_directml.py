"""Making a model run right on onnxruntime's DirectML provider."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.defaults import defaults_aside
from onnx_ops.nodes import SLICING
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.contested_nodes import unmark
from onnx_ops.passes.reshape_for_directml import ReshapeForDirectMLPass
from onnx_ops.passes.slice_for_directml import SliceForDirectMLPass
from onnx_ops.passes.split_for_directml import SplitForDirectMLPass
from onnx_ops.passes.walk import nodes_of
from sliceport.defects.engines import ONNXRUNTIME_DML
from sliceport.defects.onnxruntime import DIRECTML_PROVIDER
from sliceport.hardening import Change, Hardening

HARDEN_DIRECTML: tuple[type[NodePass], ...] = (SplitForDirectMLPass, SliceForDirectMLPass, ReshapeForDirectMLPass)


def harden_for_directml(model: ir.Model) -> Hardening:
    """Replace what onnxruntime-directml 1.24.4 computes wrongly or refuses by standard ONNX that it computes right.

    Args:
        model: The model; it is changed.

    Returns:
        What was changed, and why.
    """
    nodes = sum(1 for kind in SLICING for _ in nodes_of(model, kind))
    fixed: dict[type[NodePass], list[Change]] = {kind: [] for kind in HARDEN_DIRECTML}
    with defaults_aside(model):
        analysis = Analysis(model)
        passes = [kind() for kind in HARDEN_DIRECTML]
        for each in passes:
            each.share(analysis)
        while {each(model).modified for each in passes} != {False}:
            for each in passes:
                fixed[type(each)] += [change for change in each.changes if change.replacement is not None]
            analysis.infer()  # of a node that engines disagreed about the sizes are known now
        unmark(model)
    changes = [change for each in passes for change in (*fixed[type(each)], *each.changes)]
    return Hardening(ONNXRUNTIME_DML, DIRECTML_PROVIDER[-1], nodes, tuple(changes))

"""Known defects that explain the comparison of a node."""

from __future__ import annotations

from onnx_ops.model.io import from_proto
from onnx_ops.passes.harden_directml import harden_for_directml
from onnx_ops.verify.one_node import build_model, output_names
from sliceport.defects.defect import Defect
from sliceport.slicing import SliceSpec, SplitSpec
from sliceport.slicing.node import Resolved


def known_defects(node: Resolved, engine: str) -> list[Defect]:
    """Return the defects that a node has on an engine, as `harden_for_directml` finds them; [] for StridedSlice."""
    if not isinstance(node.spec, SliceSpec | SplitSpec):
        return []
    report = harden_for_directml(from_proto(build_model(node, output_names(node))))
    return [defect for change in report.changes for defect in change.defects if engine in defect.engines]

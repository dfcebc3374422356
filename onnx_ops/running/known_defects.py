"""Known defects that explain the comparison of a node."""

from __future__ import annotations

from onnx_ops.defects.checking import check
from onnx_ops.running.one_node import build_model
from sliceport.defects.defect import Defect
from sliceport.slicing.node import Resolved


def known_defects(node: Resolved, engine: str) -> list[Defect]:
    """Return the defects that `check` finds on an engine, for a node alone."""
    findings = check(build_model(node), {}).nodes
    return [found.defect for found in findings if found.kind == "defect" and engine in found.defect.engines]

"""Which known defects an engine has with a slicing node, so that a comparison can explain what it finds."""

from __future__ import annotations

from onnx_ops.compare.one_node import one_node, output_names
from onnx_ops.io import from_proto
from onnx_ops.passes.harden_directml import harden_for_directml
from sliceport.defects.defect import Defect
from sliceport.slicing import SliceSpec, SplitSpec
from sliceport.slicing.node import Resolved


def known_defects(node: Resolved, engine: str) -> list[Defect]:
    """The defects of an engine that hardening finds in a node by itself.

    Args:
        node: The node.
        engine: A name of `sliceport.defects.engines`; of any other engine nothing is known.
    """
    if not isinstance(node.spec, SliceSpec | SplitSpec):
        return []
    report = harden_for_directml(from_proto(one_node(node, output_names(node))))
    found = [defect for change in report.changes for defect in change.defects]
    return [defect for defect in found if isinstance(defect, Defect) and engine in defect.engines]

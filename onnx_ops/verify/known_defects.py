"""Known defects that explain a finding, in the comparison of a node or in the run of a whole model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import onnx

from onnx_ops.model.io import from_proto
from onnx_ops.passes.harden_directml import harden_for_directml
from onnx_ops.verify.one_node import build_model, output_names
from sliceport.defects.defect import Defect
from sliceport.defects.engines import ONNXRUNTIME_DML
from sliceport.engines.model_run import Finding
from sliceport.hardening import Change
from sliceport.slicing import SliceSpec, SplitSpec
from sliceport.slicing.node import Resolved
from sliceport.wording import count_of


def known_defects(node: Resolved, engine: str) -> list[Defect]:
    """Return the defects of an engine that hardening finds in a node by itself.

    Args:
        node: The node.
        engine: A name of `sliceport.defects.engines`; other engines have no known defects.
    """
    if not isinstance(node.spec, SliceSpec | SplitSpec):
        return []
    report = harden_for_directml(from_proto(build_model(node, output_names(node))))
    defects = [defect for change in report.changes for defect in change.defects]
    return [defect for defect in defects if isinstance(defect, Defect) and engine in defect.engines]


def explain_findings(findings: Sequence[Finding], proto: onnx.ModelProto) -> tuple[Finding, ...]:
    """Add to findings on the DirectML provider the known defects that explain them.

    A finding about different values may also be due to a defect of a node that the node reads, because fused nodes are
    computed together. A refusal may hide defects of other nodes, so these become findings of their own.

    Args:
        findings: The findings.
        proto: The model, in which every node has a name.
    """
    changes = {change.node: change for change in harden_for_directml(from_proto(proto)).changes}
    makers = {output: node.name for node in proto.graph.node for output in node.output if output}
    sources = {node.name: [makers[name] for name in node.input if name in makers] for node in proto.graph.node}

    def explain(finding: Finding) -> Finding:
        nodes = [finding.node, *(sources.get(finding.node, ()) if finding.kind == "different" else ())]
        causes = [
            (change, defect)
            for change in (changes[name] for name in dict.fromkeys(nodes) if name in changes)
            for defect in change.defects
            if isinstance(defect, Defect) and ONNXRUNTIME_DML in defect.engines
        ]
        if not causes:
            return finding
        sentences = [
            f"; {change.op} {change.node!r} has a known defect of {ONNXRUNTIME_DML}: {defect.id} ({defect.reason})"
            for change, defect in causes
        ]
        message = f"{finding.message.removesuffix('.')}{''.join(sentences)}."
        return replace(finding, message=message, defects=tuple(dict.fromkeys(defect.id for _, defect in causes)))

    explained = tuple(map(explain, findings))
    if not any(finding.kind == "refused" for finding in findings):
        return explained
    named = {defect for finding in explained for defect in finding.defects}
    nodes: dict[Defect, list[Change]] = defaultdict(list)
    for change in changes.values():
        for defect in change.defects:
            if isinstance(defect, Defect) and ONNXRUNTIME_DML in defect.engines and defect.id not in named:
                nodes[defect].append(change)
    return explained + tuple(_describe_defect(defect, by_defect) for defect, by_defect in nodes.items())


def _describe_defect(defect: Defect, changes: Sequence[Change]) -> Finding:
    first, more = changes[0], len(changes) - 1
    others = f" and {count_of(more, 'other node')} have" if more else " has"
    message = f"{first.op} {first.node!r}{others} a known defect of {ONNXRUNTIME_DML}: {defect.id} ({defect.reason})."
    return Finding("defect", first.node, first.op, message, (defect.id,))

"""Known defects that explain a finding, in the comparison of a node or in the run of a whole model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

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
    """Return the defects that a node has on an engine, as `harden_for_directml` finds them; [] for StridedSlice."""
    if not isinstance(node.spec, SliceSpec | SplitSpec):
        return []
    report = harden_for_directml(from_proto(build_model(node, output_names(node))))
    return [defect for change in report.changes for defect in change.defects if engine in defect.engines]


def explain_findings(findings: Sequence[Finding], proto: onnx.ModelProto) -> tuple[Finding, ...]:
    """Return findings on the DirectML provider with the known defects that explain them.

    After a refusal, which may hide known defects of any node, each known defect that no finding names gets a finding.

    Args:
        findings: The findings.
        proto: The model, in which every node has a name.
    """
    changes: dict[str, list[Change]] = defaultdict(list)
    for change in harden_for_directml(from_proto(proto)).changes:
        changes[change.node].append(change)
    producers = {output: node.name for node in proto.graph.node for output in node.output if output}
    sources = {node.name: [producers[name] for name in node.input if name in producers] for node in proto.graph.node}
    explained = tuple(_explain(finding, sources, changes) for finding in findings)
    if not any(finding.kind == "refused" for finding in findings):
        return explained
    named_ids = {defect for finding in explained for defect in finding.defects}
    changes_by_defect: dict[Defect, list[Change]] = defaultdict(list)
    for change in chain.from_iterable(changes.values()):
        for defect in _directml_defects(change):
            if defect.id not in named_ids:
                changes_by_defect[defect].append(change)
    return explained + tuple(_describe_defect(*item) for item in changes_by_defect.items())


def _explain(
    finding: Finding, sources: Mapping[str, Sequence[str]], changes: Mapping[str, Sequence[Change]]
) -> Finding:
    """Return a finding with the known defects of its node.

    If values differ, the defects of the node's producers are added. `sources` maps nodes to their producers, and
    `changes` maps nodes to the changes that hardening makes to them.
    """
    # A fusion computes a node together with its producers, so defects of producers may show in the node's output.
    nodes = [finding.node, *(sources.get(finding.node, ()) if finding.kind == "different" else ())]
    causes = [
        (change, defect)
        for name in dict.fromkeys(nodes)
        for change in changes.get(name, ())
        for defect in _directml_defects(change)
    ]
    if not causes:
        return finding
    sentences = [
        f"; {change.op} {change.node!r} has a known defect of {ONNXRUNTIME_DML}: {defect.id} ({defect.reason})"
        for change, defect in causes
    ]
    message = f"{finding.message.removesuffix('.')}{''.join(sentences)}."
    return replace(finding, message=message, defects=tuple(dict.fromkeys(defect.id for _, defect in causes)))


def _directml_defects(change: Change) -> list[Defect]:
    """Return the defects of the DirectML provider among the reasons for a change."""
    return [defect for defect in change.defects if ONNXRUNTIME_DML in defect.engines]


def _describe_defect(defect: Defect, changes: Sequence[Change]) -> Finding:
    """Return a finding about a defect. It names the first node with the defect and counts the other ones."""
    first, other_count = changes[0], len(changes) - 1
    verb = f" and {count_of(other_count, 'other node')} have" if other_count else " has"
    message = f"{first.op} {first.node!r}{verb} a known defect of {ONNXRUNTIME_DML}: {defect.id} ({defect.reason})."
    return Finding("defect", first.node, first.op, message, (defect.id,))

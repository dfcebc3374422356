"""Slices, Splits and Gathers of one value become one Split."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ops.model.conditions import is_gated
from onnx_ops.model.nodes import node_name
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.builders import build_split, build_squeeze
from onnx_ops.passes.edits import annotate_nodes
from onnx_ops.passes.gating import WOULD_BE_GATED
from onnx_ops.passes.matchers import data_of
from onnx_ops.passes.siblings import Part
from sliceport.slicing.tiling import fill_gaps


class SiblingsToSplitPass(SlicingPass):
    """Replace Slices, Splits and Gathers that cut one value along one axis by one Split.

    1. They tile the axis. A Slice has step 1 and cuts no other axis; of a Split, all parts that are read count; the
       indices of a Gather are constant neighbours. A Gather of one index becomes a part with a Squeeze; at least three
       such Gathers are needed if there is nothing else.
    2. They leave gaps: parts that nothing reads fill these, if they are at most 4 KiB for each operator that is saved.

    The size of the axis is known, and fewer operators remain. Parts that overlap go to different Splits, or stay.
    Nodes stay if one part is multiplied by the Sigmoid of another, because onnxruntime's DirectML provider computes
    such a Split wrongly.

    Given: a = Slice(x[8], [0], [3], [0]); b = Slice(x, [3], [8], [0])
    Result: a, b = Split(x, [3, 5], axis=0)
    """

    def apply(self, model: ir.Model) -> None:  # noqa: ARG002 - the search is done already
        """Rewrite the model; see the class."""
        siblings = self.analysis.siblings
        order = {node: number for number, node in enumerate(siblings.nodes)}
        for key, group in siblings.groups.items():
            _, _, axis = key
            for chosen in siblings.choices[key]:
                # The Split of another group may have replaced the data.
                data = self.edits.identities.source_of(data_of(chosen[0].node))
                first = min((part.node for part in chosen), key=order.__getitem__)
                self._split(chosen, data, axis, first, siblings.nodes[first])
            remaining = [part for part in group if part.node.graph is not None]
            if len({part.node for part in remaining}) > 1:
                self._skip(remaining, axis)

    def _skip(self, parts: Sequence[Part], axis: int) -> None:
        """Report why no Split replaces these parts."""
        reason = f"it overlaps the others along axis {axis} or leaves gaps, so that a Split would save no operator"
        if is_gated([part.output for part in parts]):
            reason = WOULD_BE_GATED
        for node in dict.fromkeys(part.node for part in parts):
            self.skip(node, reason)

    def _split(self, parts: Sequence[Part], data: ir.Value, axis: int, first: ir.Node, opset: int) -> None:
        """Replace the nodes of parts by one Split, at the position of the first node."""
        size, shape = self.size(data, axis), self.sizes(data)
        assert size is not None
        assert shape is not None
        runs = fill_gaps([part.run for part in parts], size)
        new_nodes = build_split(data, axis, list(map(len, runs)), opset)
        split = new_nodes[-1]
        split.name = first.name
        by_run = {part.run: part for part in parts}
        successors: dict[ir.Value, ir.Value] = {}
        for output, run in zip(split.outputs, runs, strict=True):
            part = by_run.get(run)
            if part is not None and not part.is_dropped:
                successors[part.output] = output
                continue
            self.set_value_info(output, data, (*shape[:axis], len(run), *shape[axis + 1 :]), parts[0].output)
            if part is not None:
                new_nodes += build_squeeze(output, [axis], opset)
                new_nodes[-1].name = f"{node_name(part.node)}_squeeze"
                annotate_nodes(new_nodes[-1:], [part.node])
                successors[part.output] = new_nodes[-1].outputs[0]
        nodes = list(dict.fromkeys(part.node for part in parts))
        # The annotations of the first node of the list win, and the Split has the name of `first`.
        old = sorted(nodes, key=lambda node: node is not first)
        self.replace_nodes(old, new_nodes, successors, [split], first)
        for node in nodes:
            self.report_change(node, "Split")

"""Slices, Splits and Gathers of one value become one Split."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ops.defects.conditions import is_gated
from onnx_ops.model.nodes import node_name
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.builders import build_split, build_with_axes
from onnx_ops.passes.edits import annotate_nodes
from onnx_ops.passes.gating import WOULD_BE_GATED
from onnx_ops.passes.matchers import data_of
from onnx_ops.passes.reshape_fusion import WOULD_FAIL
from onnx_ops.passes.siblings import Part
from sliceport.slicing.tiling import fill_gaps


class SiblingsToSplitPass(SlicingPass, name="siblings", after="split"):
    """Replace Slices, Splits and Gathers that cut one value along one axis by one Split.

    Gaps between them become parts that nothing reads, of up to 4 KiB for each operator saved. The halves of a GLU stay,
    because onnxruntime's DirectML provider computes them wrongly if they are a Split.

    1. Their parts tile the axis. A Slice must have step 1 and cut no other axis. All parts of a Split that are read
       must take part. The indices of a Gather must be constant neighbours. A Gather of a scalar index becomes a part
       and a Squeeze; at least three such Gathers are needed if no other node takes part.
    2. Their parts leave gaps: parts that nothing reads fill the gaps, which must be at most 4 KiB in total for each
       operator that is saved.

    The size of the axis must be known, and fewer operators must remain. Nodes whose parts overlap go to different
    Splits, or stay as they are. Nodes also stay if one part would be multiplied by the Sigmoid of another, as in a GLU.

    Given: a = Slice(x[8], [0], [3], [0]); b = Slice(x, [3], [8], [0])
    Result: a, b = Split(x, [3, 5], axis=0)

    Fires:
        - `y = Slice(x[4], [0], [1], [0], [1]); z = Slice(x, [1], [4], [0], [1])`
        - by chance: `a = Slice(x[4, n], [2], [M], [0], [1]); b = Gather(x, 0); c = Slice(x, [1], [2], [0], [1]);
          d = Slice(x, [0], [3], [0], [1]); y = Concat(a, c, d, axis=0); z = Neg(b)`
        - of single indices (outputs y0 y1 y2): `y0 = Gather(x[3, n], 0); y1 = Gather(x, 1); y2 = Gather(x, 2)`
        - of a single index and the rest: `y = Gather(x[4, n], 0); z = Slice(x, [1], [M], [0], [1])`
        - with a Split: `a, b, c = Split(x[4], [1, 2, 1]); d = Slice(x, [1], [3], [0], [1]); e = Concat(c, d, axis=0);
          y = Mul(a, e)`
        - with a small gap: `y = Slice(x[4, 256], [0], [1], [0], [1]); z = Slice(x, [3], [4], [0], [1])`

    Stays:
        - with a large gap: `y = Slice(x[4, 1024], [0], [1], [0], [1]); z = Slice(x, [3], [4], [0], [1])`:
          "so that a Split would not pay"
        - with an open gap: `y = Slice(x[4, n], [0], [1], [0], [1]); z = Slice(x, [3], [4], [0], [1])`:
          "so that a Split would not pay"
        - that overlap: `y = Slice(x[4], [0], [3], [0], [1]); z = Slice(x, [1], [4], [0], [1])`:
          "so that a Split would not pay"
        - of few single indices (outputs y0 y1): `y0 = Gather(x[2, n], 0); y1 = Gather(x, 1)`:
          "so that a Split would not pay"
        - in a GLU: `a = Slice(x[4], [0], [2], [0], [1]); b = Slice(x, [2], [4], [0], [1]); c = Sigmoid(b);
          y = Mul(a, c)`: "is multiplied by the Sigmoid of another"
        - open: `y = Slice(x[n], [0], [1], [0], [1]); z = Slice(x, [1], [M], [0], [1])`
        - of two axes: `y = Slice(x[4, 4], [0, 0], [1, 2]); z = Slice(x, [1], [4], [0], [1])`
        - by steps: `y = Slice(x[4], [0], [4], [0], [2]); z = Slice(x, [1], [4], [0], [2])`
        - with a copied size: `s = Shape(x[3, n, m]); a = Slice(s, [0], [1], [0], [1]);
          b = Unsqueeze(Gather(s, 1), [0]); c = Slice(s, [2], [3], [0], [1]); t = Concat([3], b, [0], axis=0);
          y = Reshape(x, t); z = Add(a, c)`: "a constant with a 0 and a -1, which fails at size 0"
    """

    def _apply(self) -> None:
        siblings = self.analysis.siblings
        order = {node: number for number, node in enumerate(siblings.nodes)}
        for key, group in siblings.groups.items():
            _, _, axis = key
            skipped: set[ir.Node] = set()
            for parts in siblings.splits_by_group[key]:
                # The Split of another group may have replaced the value that these nodes cut.
                data = self.edits.identities.source_of(data_of(parts[0].node))
                first = min((part.node for part in parts), key=order.__getitem__)
                opset = siblings.nodes[first]
                if not self._split(parts, data, axis, first, opset):
                    skipped.update(part.node for part in parts)
            # Without the nodes that a Split replaced.
            remaining = [part for part in group if part.node.graph is not None and part.node not in skipped]
            nodes = dict.fromkeys(part.node for part in remaining)
            if len(nodes) < 2:
                continue
            reason = f"it overlaps the others along axis {axis} or leaves gaps, so that a Split would not pay"
            if is_gated([part.output for part in remaining]):
                reason = WOULD_BE_GATED
            for node in nodes:
                self.skip(node, reason)

    def _split(self, parts: Sequence[Part], data: ir.Value, axis: int, first: ir.Node, opset: int) -> bool:
        """Replace the nodes of `parts` by one Split in the place of `first`. Its unread outputs fill the gaps.

        Skip the nodes and return False if a Reshape would fail.
        """
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
            if part is not None and not part.drops_axis:
                successors[part.output] = output
                continue
            # This output replaces no value, so `replace_nodes` would give it no name, type and shape.
            self.set_value_info(output, data, (*shape[:axis], len(run), *shape[axis + 1 :]), parts[0].output)
            if part is not None:
                new_nodes += build_with_axes("Squeeze", output, [axis], opset)
                new_nodes[-1].name = f"{node_name(part.node)}_squeeze"
                annotate_nodes(new_nodes[-1:], [part.node])
                successors[part.output] = new_nodes[-1].outputs[0]
        nodes = list(dict.fromkeys(part.node for part in parts))
        if self.breaks_reshape(successors, new_nodes):
            for node in nodes:
                self.skip(node, WOULD_FAIL)
            return False
        # The Split has the name of `first`. `first` leads the list, so that its annotations win.
        old = sorted(nodes, key=lambda node: node is not first)
        self.replace_nodes(old, new_nodes, successors, [split], first)
        for node in nodes:
            self.report_change(node, "Split")
        return True

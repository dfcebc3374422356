"""A Slice or Split that keeps all elements is removed."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_slice
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.matchers import data_of, drop_whole_axes, read_exact_split, read_slice
from onnx_ops.passes.outcome import SKIPS
from sliceport.hardening import NOTHING


class RemoveIdentitySlicesPass(NodePass, name="identity", after="chain"):
    """Remove a Slice or Split that keeps all elements in their order, and axes that a Slice names but keeps whole.

    Slicing that nothing reads is removed, too.

    1. The size of each axis is known, and all of it is kept, forward.
    2. The size is not known, the start is 0, the end INT64_MAX and the step 1.
    3. A Split has one part, and the size of its axis is known.
    4. Nothing reads the outputs of a Slice, Split or Gather.
    5. A Slice cuts some axes and keeps others whole, as in 1 or 2: it names only those that it cuts.

    Given: y = Neg(Slice(x[4], [0], [9], [0]))
    Result: y = Neg(x)

    An output of the graph becomes an Identity. Not rewritten: bounds that are not constant.

    Fires:
        - known: `a = Slice(x[4], [-9], [9], [0], [1]); y = Neg(a)`
        - open: `a = Slice(x[n], [0], [M], [0], [1]); y = Neg(a)`
        - of one part: `a = Split(x[4], [4]); y = Neg(a)`
        - unread: `a = Slice(x[4], [1], [2], [0], [1]); y = Neg(x)`
        - of an axis: `y = Slice(x[4, 4], [0, 1], [4, 2])`
        - that comes out: `y = Slice(x[4], [0], [4], [0], [1])`

    Stays:
        - shorter: `y = Slice(x[4], [0], [3], [0], [1])`
        - open and bounded: `y = Slice(x[n], [0], [2147483647], [0], [1])`
        - of one part, open: `y = Split(x[n], [4])`: "is not known"
        - before a copied size: `s = Shape(x[n, m]); a = Gather(s, [0]); b = Slice(s, [0], [2], [0], [1]);
          c = Unsqueeze(Gather(b, 1), [0]); t = Concat(a, c, axis=0); y = Reshape(x, t)`:
          "a constant with a 0 and a -1, which fails at size 0"
    """

    op_types = ("Slice", "Split", "Gather")

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        if not any(map(is_used, node.outputs)):
            self.remove_node(node)
            self.report_change(node, NOTHING)
            return
        if node.op_type == "Gather" or len(node.outputs) != 1:
            return
        if node.op_type == "Split":
            read_exact_split(node, opset, self.sizes(data))  # raises an error if the part may differ from the data
        else:
            try:
                entries = read_slice(node, opset, self.sizes(data))
            except SKIPS:  # no sign that the Slice keeps all elements, so there is nothing to report
                return
            cut = drop_whole_axes(entries, self.sizes(data))
            if cut:
                if len(cut) < len(entries):
                    self.replace_node(node, build_slice(data, cut, opset))
                return
        self.replace_outputs(node, {node.outputs[0]: data})

"""`ov_ext::StridedSlice` becomes standard operators."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.defects.contested import CONTESTED_ENDS
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.model.specs import strided_slice_spec
from onnx_ops.model.views import Sizes
from onnx_ops.model.walk import rewritable_nodes
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.outcome import Skip
from onnx_ops.passes.rewrite.shorten_chains import NEW, SliceChain, build_chain
from sliceport.slicing import INT64_MAX, INT64_MIN, AxisSlice, StridedSliceSpec, resolve_axis


class ExpandStridedSlicePass(NodePass, name="strided"):
    """Write `ov_ext::StridedSlice` as a Slice, a Squeeze of the dropped axes and an Unsqueeze of the new ones.

    Its indices must be constant.

    1. Begin, end and strides are constant and the rank of the data is known. An operator without an effect is left out.
    2. A dropped axis is cut to one element. If the size is not known, the Squeeze fails for an index out of range.

    Given: y = StridedSlice(x[4, 6], [1, 0], [0, 9], shrink_axis_mask=[1])
    Result: y = Squeeze(Slice(x, [1], [2], [0]), [0])

    Skipped: run-time indices, for which see `strided_slice_op.embed_function`; an invalid node.

    Fires:
        - cut: `y = StridedSlice(x[4, n], [1, 0], [3, -1], [1, 2])`
        - dropped: `y = StridedSlice(x[4, 6], [-1, 0], [0, 9], [1, 1], shrink_axis_mask=[1])`
        - dropped open: `y = StridedSlice(x[n, 6], [1, 0], [0, 9], [1, 1], shrink_axis_mask=[1])`
        - new: `y = StridedSlice(x[4, 6], [0, 1, 0], [0, 3, 0], [1, 1, 1], new_axis_mask=[1, 0, 1])`
        - masks: `y = StridedSlice(x[4, 6], [3, 3, 0], [1, 1, 0], [-1, -2, 1], begin_mask=[1], end_mask=[0, 1],
          new_axis_mask=[0, 0, 1])`
        - ellipsis: `y = StridedSlice(x[4, n, 6], [1, 0, 0, 2], [0, 0, 0, 5], [1, 1, 1, 1], ellipsis_mask=[0, 1],
          new_axis_mask=[0, 0, 1], shrink_axis_mask=[1])`
        - whole: `y = StridedSlice(x[4, 6], [0], [9], [1])`
        - contested: `y = StridedSlice(x[4, 6], [-1], [M], [-1])`
        - contested open: `y = StridedSlice(x[n, 6], [-1], [M], [-1])`

    Stays:
        - rank: `y = StridedSlice(x, [0], [1])`: "rank of its data is not known"
        - run-time: `s = Shape(x[2, 3]); y = StridedSlice(x, s, s)`: "not a constant"
        - beyond: `y = StridedSlice(x[2, n], [2], [3], shrink_axis_mask=[1])`: "shrinks axis 0 to index 2"
        - step: `y = StridedSlice(x[n], [2], [3], [0])`: "is 0, but it must not be"
    """

    op_types = ("StridedSlice",)

    def _apply(self) -> None:
        super()._apply()
        # Without StridedSlice nodes, the function of StridedSlice is unused, and only other nodes may need the domain.
        if self.changes and not self.analysis.nodes_of(*self.op_types):
            model = self.analysis.model
            model.functions.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)
            if not any(node.domain == STRIDED_SLICE_DOMAIN for node, _ in rewritable_nodes(model)):
                model.opset_imports.pop(STRIDED_SLICE_DOMAIN, None)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = node.inputs[0] if node.inputs else None
        sizes = self.sizes(data)
        if len(node.outputs) != 1:
            raise Skip(f"it must have one output and has {len(node.outputs)}")
        if data is None or sizes is None:
            raise Skip("the rank of its data is not known")
        self.replace_node(node, build_chain(self, _to_chain(strided_slice_spec(node), sizes), data, node, opset))


def _to_chain(spec: StridedSliceSpec, sizes: Sizes) -> SliceChain:
    """Describe a StridedSlice as a chain: a Slice, a Squeeze and an Unsqueeze in a row.

    Raises:
        InvalidSlice: The StridedSlice breaks its specification.
    """
    chain = SliceChain(sizes)
    for entry in spec.check(sizes):
        if entry.kind == "slice":
            bounds, size = _unmask(spec, entry.position), sizes[entry.axis]
            # If the step is negative, engines disagree about a start before the first element: resolve the bounds here.
            if size is not None and bounds.step < 0:
                bounds = AxisSlice.of(resolve_axis(*bounds, size))
            chain.entries[entry.axis] = bounds
        elif entry.kind == "shrink":
            begin = spec.begin[entry.position]
            # Index -1 cannot have the end -1 + 1 = 0, which is the start of the axis.
            chain.entries[entry.axis] = AxisSlice(begin, INT64_MAX if begin == -1 else begin + 1, 1)
        if entry.kind != "shrink":
            chain.axes.append(NEW if entry.kind == "new" else entry.axis)
    return chain


def _unmask(spec: StridedSliceSpec, position: int) -> AxisSlice:
    """Return the start, end and step of an entry. A masked begin or end becomes a bound that leaves out no element."""
    begin, end, step = spec.bounds(position)
    far_start, far_end = (0, INT64_MAX) if step > 0 else (INT64_MAX, INT64_MIN)
    start = far_start if begin is None else begin
    end = far_end if end is None else end
    # A backward slice with a contested end selects nothing, but onnxruntime would reverse the axis. With the new end,
    # all engines select nothing.
    if step < 0 and end in CONTESTED_ENDS:
        end = min(CONTESTED_ENDS) - 1
    return AxisSlice(start, end, step)

"""`ov_ext::StridedSlice` becomes standard operators."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.contested import CONTESTED_ENDS
from onnx_ops.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.nodes import is_strided_slice, strided_slice_spec
from onnx_ops.passes.base import NodePass, NotApplied, Outcome, all_nodes
from onnx_ops.passes.builders import slice_node, view_node
from onnx_ops.passes.value_info import Sizes
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing import INT64_MAX, INT64_MIN, AxisSlice, StridedSliceSpec, resolve_axis


class ExpandStridedSlicePass(NodePass):
    """Write `ov_ext::StridedSlice` as a Slice, a Squeeze of the dropped axes and an Unsqueeze of the new ones.

    1. Begin, end and strides are constants and the rank of the data is known; only what is needed of the three is
       written.
    2. A dropped axis is cut to its one element; where its size is open, the Squeeze fails if the index is beyond.

    Given: y = StridedSlice(x[4, 6], [1, 0], [0, 9], shrink_axis_mask=[1])
    Result: y = Squeeze(Slice(x, [1], [2], [0]), [0])

    Not rewritten: run-time indices, for which see `strided_slice_op.embed_function`; a node that breaks the rules.
    """

    op_types = ("StridedSlice",)

    def nodes(self, model: ir.Model) -> list[tuple[ir.Node, int]]:
        """See the base class."""
        return [(node, opset) for node, opset in all_nodes(model) if is_strided_slice(node)]

    def apply(self, model: ir.Model) -> None:
        """See the class; the model no longer imports what it no longer holds."""
        super().apply(model)
        if self.changes and not self.nodes(model):
            model.functions.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)
            if not any(node.domain == STRIDED_SLICE_DOMAIN for node, _ in all_nodes(model)):
                model.opset_imports.pop(STRIDED_SLICE_DOMAIN, None)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        data = node.inputs[0] if node.inputs else None
        sizes = self.sizes(data)
        if len(node.outputs) != 1:
            raise NotApplied(f"it has {len(node.outputs)} outputs")
        if data is None or sizes is None:
            raise NotApplied("the rank of its data is not known")
        try:
            entries, dropped, added = _aligned(strided_slice_spec(node), sizes)
        except (InvalidSlice, DynamicSlice) as reason:
            raise NotApplied(str(reason)) from None
        new: list[ir.Node] = []
        cut = {axis: entry for axis, entry in entries.items() if not entry.is_whole(sizes[axis])}
        if cut or not (dropped or added):
            made = slice_node(data, cut, opset) if cut else [ir.node("Identity", [data])]
            if made is None:
                raise NotApplied("it would need steps, which Slice has from opset 10 on")
            new += made
        for op_type, axes in (("Squeeze", dropped), ("Unsqueeze", added)):
            if axes:
                if new:
                    self.describe(new[-1].outputs[0], data, None, node.outputs[0])
                new += view_node(op_type, new[-1].outputs[0] if new else data, axes, opset)
        new[-1].name = node.name
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return ", ".join(one.op_type for one in new if one.op_type != "Constant"), ()


def _aligned(spec: StridedSliceSpec, sizes: Sizes) -> tuple[dict[int, AxisSlice], list[int], list[int]]:
    """What is done to each axis, the axes that are dropped, and those of the output that are new.

    Raises:
        InvalidSlice: The entries break the rules, as far as the sizes are known.
    """
    spec.check(sizes)
    cuts: dict[int, AxisSlice] = {}
    dropped: list[int] = []
    added: list[int] = []
    rank = 0
    for entry in spec.entries(len(sizes)):
        if entry.kind == "new":
            added.append(rank)
        elif entry.kind == "slice":
            cuts[entry.axis] = _undisputed(_unmasked(spec, entry.position), sizes[entry.axis])
        elif entry.kind == "shrink":
            begin = spec.begin[entry.position]
            cuts[entry.axis] = AxisSlice(begin, INT64_MAX if begin == -1 else begin + 1, 1)
            dropped.append(entry.axis)
        rank += entry.kind != "shrink"
    return cuts, dropped, added


def _undisputed(entry: AxisSlice, size: int | None) -> AxisSlice:
    """The same in a spelling that all engines read alike: backwards from below the axis they do not."""
    return entry if size is None or entry.step > 0 else AxisSlice.of(resolve_axis(*entry, size))


def _unmasked(spec: StridedSliceSpec, position: int) -> AxisSlice:
    """One entry's bounds, what its masks ignore written out."""
    begin, end, step = spec.bounds(position)
    far_start, far_end = (0, INT64_MAX) if step > 0 else (INT64_MAX, INT64_MIN)
    start = far_start if begin is None else begin
    end = far_end if end is None else end
    if step < 0 and end in CONTESTED_ENDS:  # nothing lies beyond; onnxruntime would reverse the axis
        end = min(CONTESTED_ENDS) - 1
    return AxisSlice(start, end, step)

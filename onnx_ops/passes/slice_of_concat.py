"""Slice of a Concat that falls inside one operand becomes a Slice of that operand."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import is_used, slice_node
from onnx_ops.passes.compose_slices import keeps_all
from onnx_ops.passes.matchers import attribute, filled_parts, source_of, written_slice
from onnx_ops.passes.siblings_to_split import IN_SPLIT, split_members
from sliceport.errors import InvalidSlice
from sliceport.slicing import AxisSlice, SplitSpec, resolve_axis, shift
from sliceport.slicing.spec import normalize_axis


class SliceOfConcatPass(NodePass):
    """Read the operands of a Concat instead of what it joins, where one of them has all that is kept.

    1. A Slice keeps, on the axis of the Concat, elements of one operand alone: it cuts that operand.
    2. Every part of a Split that is read is exactly one operand: the operand takes its place.

    The sizes of all operands on the axis are known.

    Given: y = Slice(Concat(a[3], b[5], axis=0), [4], [6], [0])
    Result: y = Slice(b, [1], [3], [0])

    An output of the graph becomes an Identity. Not rewritten: Slices that
    `SiblingsToSplitPass` makes a Split of; what keeps elements of several operands, or none.
    """

    op_types = ("Slice", "Split")

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        self._split_members = split_members(model, self.known)
        super().apply(model)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        joined = source_of(node.inputs[0]) if node.inputs else None
        concat = None if joined is None else joined.producer()
        if joined is None or concat is None or not is_operator(concat, "Concat"):
            return None
        if node.op_type == "Slice" and node in self._split_members:
            raise NotApplied(IN_SPLIT)
        operands = self._operands(concat)
        if node.op_type == "Split":
            return self._split(node, opset, concat, operands)
        shape = self.sizes(joined)
        entries = written_slice(node, opset, shape)
        if keeps_all(entries, shape):
            return None  # RemoveIdentitySlicesPass takes it
        axis = operands.axis
        kept = resolve_axis(*entries.get(axis, AxisSlice(0, sum(operands.sizes), 1)), sum(operands.sizes))
        ends = [*kept[:1], *kept[-1:]]  # an axis may be too long to walk through
        inside = [
            (i, start)
            for i, (start, stop) in enumerate(operands.bounds)
            if ends and all(start <= index < stop for index in ends)
        ]
        if not inside:
            raise NotApplied("it does not keep elements of one operand of the Concat alone")
        ((i, start),) = inside
        data = concat.inputs[i]
        assert data is not None
        new = slice_node(data, {**entries, axis: AxisSlice.of(shift(kept, -start))}, opset)
        if new is None:
            raise NotApplied("it would need steps, which Slice has from opset 10 on")
        new[-1].name = node.name
        self.put_in_place([node], new, {node.outputs[0]: new[-1].outputs[0]})
        return "Slice", ()

    def _operands(self, concat: ir.Node) -> SplitSpec:
        """The operands of a Concat as the parts that splitting it would give.

        Raises:
            NotApplied: Not all sizes are known.
        """
        shapes = [self.sizes(value) for value in concat.inputs]
        known = [shape for shape in shapes if shape is not None]
        if not known or len(known) < len(shapes):
            raise NotApplied("the shapes of the Concat's operands are not known")
        try:
            axis = normalize_axis(attribute(concat, "axis", 1), len(known[0]))
        except InvalidSlice as reason:
            raise NotApplied(str(reason)) from None
        sizes = [size for shape in known if len(shape) > axis and (size := shape[axis]) is not None]
        if len(sizes) < len(known):
            raise NotApplied(f"the sizes of the Concat's operands on axis {axis} are not known")
        return SplitSpec(axis, tuple(sizes))

    def _split(self, node: ir.Node, opset: int, concat: ir.Node, operands: SplitSpec) -> Outcome:
        parts = filled_parts(node, opset, self.sizes(node.inputs[0]))
        read = {output: bounds for output, bounds in zip(node.outputs, parts.bounds, strict=True) if is_used(output)}
        whole = dict(zip(operands.bounds, concat.inputs, strict=True))
        if parts.axis != operands.axis or any(bounds not in whole for bounds in read.values()):
            raise NotApplied("its parts are not the operands of the Concat")
        return self.replace_by(node, {output: whole[bounds] for output, bounds in read.items()}), ()

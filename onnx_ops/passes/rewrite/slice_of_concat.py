"""A Slice or Split of a Concat reads the operands instead."""

from __future__ import annotations

from itertools import accumulate, pairwise

import onnx_ir as ir

from onnx_ops.model.nodes import is_valid_operator, node_name, read_int
from onnx_ops.model.views import Sizes
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import build_slice
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.matchers import data_of, drop_whole_axes, read_exact_split, read_slice
from onnx_ops.passes.outcome import Skip
from onnx_ops.passes.siblings import IN_SPLIT
from sliceport.slicing import INT64_MAX, AxisSlice, resolve_axis, shift
from sliceport.slicing.spec import normalize_axis
from sliceport.slicing.tiling import find_part


class SliceOfConcatPass(NodePass, name="concat", after="gather"):
    """Let a Slice or Split of a Concat read the operands instead, if these contain all that is selected.

    1. On the axis of the Concat, a Slice selects elements of one operand alone: it cuts that operand.
    2. Every part of a Split that is read is exactly one operand: the operand replaces it.

    The sizes of all operands on the axis must be known.

    Given: y = Slice(Concat(a[3], b[5], axis=0), [4], [6], [0])
    Result: y = Slice(b, [1], [3], [0])

    An output of the graph becomes an Identity. Skipped: Slices that `SiblingsToSplitPass` replaces by a Split; Slices
    that select elements of several operands, or none.

    Fires:
        - `a = Concat(x[4], x, axis=0); y = Slice(a, [5], [7], [0], [1])`
        - backwards: `a = Concat(x[4], x, axis=0); y = Slice(a, [3], [L], [0], [-1])`
        - other axes: `a = Concat(x[4, n], x, axis=0); y = Slice(a, [4, 1], [8, 2])`
        - Split: `m = Neg(x[4]); a = Concat(x, m, axis=0); b, c = Split(a, [4, 4]); y = Sub(b, c)`

    Stays:
        - of two: `a = Concat(x[4], x, axis=0); y = Slice(a, [3], [6], [0], [1])`: "exactly one operand"
        - open: `a = Concat(x[n], x, axis=0); y = Slice(a, [0], [1], [0], [1])`: "are known"
        - Split elsewhere: `a = Concat(x[4], x, axis=0); y, z = Split(a, [3, 5])`: "are not the operands"
        - with a copied size: `s = Shape(x[n, m]); a = Gather(s, [0]); b = Unsqueeze(Gather(s, 1), [0]);
          c = Concat(b, [5], axis=0); d, e = Split(c, [1, 1]); t = Concat(a, d, axis=0); y = Reshape(x, t)`:
          "a constant with a 0 and a -1, which fails at size 0"
    """

    op_types = ("Slice", "Split")
    spares_siblings = True

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        joined = self.edits.identities.source_of(data_of(node))
        concat = joined.producer()
        if concat is None or not is_valid_operator(concat, "Concat"):
            return
        if node.op_type == "Split":
            self._rewrite_split(node, opset, concat)
        elif node in self.split_members:
            raise Skip(IN_SPLIT)
        else:
            self._rewrite_slice(node, opset, concat, self.sizes(joined))

    def _rewrite_slice(self, node: ir.Node, opset: int, concat: ir.Node, shape: Sizes | None) -> None:
        """Replace a Slice of a Concat by a Slice of one operand. `shape` is the shape of the Concat's output."""
        axis, ends = self.read_once(concat, lambda: self._find_operand_ends(concat))
        entries = read_slice(node, opset, shape)
        if not drop_whole_axes(entries, shape):
            return  # RemoveIdentitySlicesPass removes such a Slice
        size = ends[-1]
        selected = resolve_axis(*entries.get(axis, AxisSlice(0, size, 1)), size)
        index_and_start = find_part(ends, selected)
        if index_and_start is None:
            raise Skip(f"it does not select elements of exactly one operand of Concat {node_name(concat)!r}")
        index, start = index_and_start
        operand = concat.inputs[index]
        assert operand is not None  # `_find_operand_ends` has read its size
        self.replace_node(node, build_slice(operand, {**entries, axis: AxisSlice.of(shift(selected, -start))}, opset))

    def _find_operand_ends(self, concat: ir.Node) -> tuple[int, list[int]]:
        """Return the axis of a Concat, and for each operand the index after its last element in the output.

        Raise one of `SKIPS` if the axis or a size is not known, or the sizes add up to more than 2^63 - 1.
        """
        shapes = [self.sizes(value) for value in concat.inputs]
        known_shapes = [shape for shape in shapes if shape is not None]
        if not known_shapes or len(known_shapes) < len(shapes):
            raise Skip(f"not all ranks of the operands of Concat {node_name(concat)!r} are known")
        axis = normalize_axis(read_int(concat, "axis", 1), len(known_shapes[0]))  # 1 is the default of Concat-1
        sizes = [size for shape in known_shapes if len(shape) > axis and (size := shape[axis]) is not None]
        if len(sizes) < len(known_shapes):
            raise Skip(f"not all sizes of the operands of Concat {node_name(concat)!r} on axis {axis} are known")
        if sum(sizes) > INT64_MAX:
            raise Skip(f"the operands of Concat {node_name(concat)!r} have more than 2^63 - 1 elements on axis {axis}")
        return axis, list(accumulate(sizes))

    def _rewrite_split(self, node: ir.Node, opset: int, concat: ir.Node) -> None:
        """Replace the used outputs of a Split of a Concat by operands of the Concat."""
        axis, ends = self.read_once(concat, lambda: self._find_operand_ends(concat))
        spec = read_exact_split(node, opset, self.sizes(node.inputs[0]))
        used = {output: bounds for output, bounds in zip(node.outputs, spec.bounds, strict=True) if is_used(output)}
        # Each operand, by its first index and the index after its last one. No operand is None; `filter` is for mypy.
        operands = dict(zip(pairwise((0, *ends)), filter(None, concat.inputs), strict=True))
        if spec.axis != axis or any(bounds not in operands for bounds in used.values()):
            raise Skip(f"its parts are not the operands of Concat {node_name(concat)!r}")
        replacements = {output: operands[bounds] for output, bounds in used.items()}
        self.replace_outputs(node, replacements)

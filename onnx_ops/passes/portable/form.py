"""Rewriting of Slices, Splits and Concats in the portable form, which every engine accepts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

import onnx_ir as ir

from onnx_ops.defects.contested import CONTESTED_ENDS, find_disagreement
from onnx_ops.model.nodes import SLICE_INPUTS_OPSET, SLICING, SPLIT_INPUT_OPSET, constant, has_valid_arity, read_int
from onnx_ops.model.specs import has_sizes_input, slice_spec, split_spec_with_open_sizes
from onnx_ops.model.views import Sizes
from onnx_ops.passes.base import NodePass
from onnx_ops.passes.builders import NodeList, build_gather, build_reshape, build_slice, build_split
from onnx_ops.passes.edits import is_used
from onnx_ops.passes.matchers import data_of, read_slice_by_spec, sizes_after
from onnx_ops.passes.rewrite.fold_slices import FoldSlicesPass
from sliceport.defects.entries import read_entries
from sliceport.hardening import NOTHING
from sliceport.slicing import INT64_MAX, INT64_MIN, AxisSlice, SliceSpec, SplitSpec, resolve_axis

BACKWARD = read_entries("onnxruntime")["backward slice to the greatest integer"]

Entries = dict[int, AxisSlice]
NOTHING_OF_AN_AXIS = AxisSlice(0, 0, 1)
"""The portable form of a slice that selects nothing of an axis."""
_CONCAT_AXIS_OF_OPSET_1 = 1


class ConstantBoundsPass(FoldSlicesPass):
    """Replace computed bounds and part sizes that are the same for all inputs of a model by constants.

    1. They are computed from constants and known shapes, by operators that every engine computes alike.

    Given: y = Slice(x[4], Shape(a[2]), [4])
    Result: y = Slice(x, [2], [4])

    Skipped: bounds that depend on the inputs of the model.
    """

    def _apply(self) -> None:
        folded = self.find_known_tensors()
        for node, _ in self.analysis.nodes_of(*SLICING):
            if node.graph is not None and has_valid_arity(node):  # folding for an earlier node may have removed it
                self.fold_parameters(node, folded)


class PortablePass(NodePass):
    """A pass that writes nodes in the portable form.

    Attributes:
        without: Names in `FORMS` of the forms that the target lacks.
        read_as: The reading of backward Slices to the greatest integer: `standard` or `onnxruntime`. None leaves them.
    """

    reveals_shapes = True

    def __init__(self, without: Collection[str] = (), read_as: str | None = None) -> None:
        """Set the attributes; see the class."""
        super().__init__()
        self.without = frozenset(without)
        self.read_as = read_as

    def fill_gaps(self, entries: Entries, sizes: Sizes | None) -> Entries:
        """Return `entries`, which must not be empty. If the target accepts no gaps, add whole axes in the gaps."""
        if "axis-gaps" not in self.without:
            return entries
        filled = {}
        for axis in range(min(entries), max(entries) + 1):
            size = None if sizes is None else sizes[axis]
            filled[axis] = entries.get(axis, AxisSlice(0, INT64_MAX if size is None else size, 1))
        return filled


class PortableSlicePass(PortablePass):
    """Write a Slice so that an engine has nothing left to infer, to sort or to clamp.

    1. Axes and steps are listed as int64, the axes in order and counted from the front.
    2. On an axis of known size, the start is the first selected index, and the end is next to the last selected index.
       A backward slice that selects index 0 has the end `-size - 1`. A single index has step 1.
    3. A whole axis is not listed; if no axis is left, the Slice is removed.
    4. Nothing is selected: an axis has the bounds `0:n` if n of its indices are selected, even if n is 0.
    5. `without` contains `steps` or `negative-steps`: a Reshape divides the axis into rows of `step` elements, and a
       Slice takes one column. A backward Slice, or one whose last row would be too short, becomes a Gather.
    6. `without` contains `axis-gaps`: whole axes are listed between the axes that are cut.

    Given: y = Slice(x[4, 6], [-1, 1], [-9, 100], [1, 0], [-2, 1])
    Result: y = Slice(x, [1, 5], [4, 0], [0, 1], [1, -2])

    Reported and not fixed: a backward Slice to the greatest integer, unless `read_as` chooses a reading; a step that
    `without` excludes on an axis of unknown size. Skipped: bounds that are not constant.
    """

    op_types = ("Slice",)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        sizes = self.sizes(data)
        written = read_slice_by_spec(node, opset, sizes)
        # `read_as` applies only to a backward Slice to the greatest integer. Other contested Slices are read by the
        # specification, as onnxruntime's CPU provider does without optimization.
        if find_disagreement(node, opset, sizes) is BACKWARD:
            if self.read_as is None:
                self.report_change(node, None, (BACKWARD,))
                return
            is_reversal = self.read_as == "onnxruntime"
            written = {axis: _replace_contested_end(entry, is_reversal=is_reversal) for axis, entry in written.items()}
        normal = normalize_entries(written, sizes)
        if not normal:  # no axis is cut
            self.replace_outputs(node, {node.outputs[0]: data})
            return
        excluded = {axis: entry for axis, entry in normal.items() if self._is_excluded(entry)}
        if excluded:
            new_nodes = self._build_without_steps(excluded, data, normal, opset, node.outputs[0])
        else:
            listed = self.fill_gaps(normal, sizes)
            if _lists_exactly(node, opset, listed):
                return
            new_nodes = build_slice(data, listed, opset, lists_steps=True)
        if not new_nodes:  # the target lacks the step, and there is no other form
            self.report_change(node, None)
            return
        self.replace_node(node, new_nodes)

    def _build_without_steps(
        self, excluded: Entries, data: ir.Value, entries: Entries, opset: int, output: ir.Value
    ) -> list[ir.Node]:
        """Return nodes that do what a Slice of `data` by `entries` does, without a step on the axes in `excluded`.

        The list is empty if the size of an excluded axis is not known, or if the target lacks a Gather that is needed.
        The indices in `entries` count from the front. New values are named after `output`.
        """
        sizes = self.sizes(data)
        known_sizes = {} if sizes is None else {axis: size for axis in excluded if (size := sizes[axis]) is not None}
        if sizes is None or len(known_sizes) < len(excluded):
            return []
        # By axis: the elements that a Reshape divides into rows of `step` elements. None if a Gather is needed, because
        # the slice goes backward, the axis is too short for whole rows, or a Reshape would have to infer several sizes.
        spans = {
            axis: entry.rows(known_sizes[axis]) if entry.step > 0 and sizes.count(None) <= 1 else None
            for axis, entry in excluded.items()
        }
        if "gather" in self.without and None in spans.values():
            return []
        chain = _Chain(self, data, sizes, output)
        whole = AxisSlice(0, INT64_MAX, 1)
        # One Slice cuts all axes that need no Gather, so that the nodes after it have less to move. An axis without a
        # span stays whole, because a Gather selects from all of it.
        chain.slice(normalize_entries(entries | {axis: span or whole for axis, span in spans.items()}, sizes), opset)
        for axis, entry in excluded.items():
            span = spans[axis]
            if span is None:
                chain.gather(axis, resolve_axis(*entry, known_sizes[axis]))
            else:
                chain.take_column(axis, entry.step, entry.start - span.start, opset)
        return chain.nodes

    def _is_excluded(self, entry: AxisSlice) -> bool:
        """Return whether `without` excludes the step of a slice."""
        return (entry.step != 1 and "steps" in self.without) or (entry.step < 0 and "negative-steps" in self.without)


class ContestedSlicePass(PortableSlicePass):
    """Rewrite only Slices with a negative step and the greatest integer as their end; see `PortableSlicePass`."""

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        if find_disagreement(node, opset, self.sizes(data_of(node))) is BACKWARD:
            super()._rewrite(node, opset)


class _Chain:
    """Nodes that cut a tensor one after the other.

    Attributes:
        nodes: The nodes.
        value: The output of the last node; `data` before there is any.
        sizes: The sizes of `value`, None for each open one.
    """

    def __init__(self, owner: PortablePass, data: ir.Value, sizes: Sizes, output: ir.Value) -> None:
        """Start with `data`, whose sizes are `sizes`. `owner` is the pass; it names new values after `output`."""
        self._owner, self._data, self._output = owner, data, output
        self.nodes = NodeList()
        self.value = data
        self.sizes = sizes

    def slice(self, entries: Entries, opset: int) -> None:
        """Add a Slice with the bounds `entries`, by axis. Do nothing if `entries` is empty."""
        if entries:
            listed = self._owner.fill_gaps(entries, self.sizes)
            self._add(build_slice(self.value, listed, opset, lists_steps=True), sizes_after(entries, self.sizes))

    def gather(self, axis: int, indices: range) -> None:
        """Add a Gather of `indices` along an axis."""
        self._add(build_gather(self.value, axis, indices), self._with_size(axis, len(indices)))

    def take_column(self, axis: int, step: int, column: int, opset: int) -> None:
        """Select each `step`-th index of an axis, from `column` on.

        The size of the axis must be known and a multiple of `step`. At most one other size may be open. A Reshape
        divides the axis into rows of `step` elements, a Slice takes one column, and a second Reshape joins the rows.
        """
        size = self.sizes[axis]
        assert size is not None
        row_count = size // step
        final_sizes = self._with_size(axis, row_count)
        # Three axes are enough: the rows joined with the axes before them, the elements of a row, and the axes after.
        self._reshape((_product((*self.sizes[:axis], row_count)), step, _product(self.sizes[axis + 1 :])))
        self.slice({1: AxisSlice(column, column + 1, 1)}, opset)
        self._reshape(final_sizes)

    def _reshape(self, sizes: Sizes) -> None:
        # Only `take_column` calls this, for a step above 1, and with at most one open size. A size of 0 would copy a
        # size of the data. It does not occur: if nothing is selected, `normalize_entries` makes all steps 1.
        self._add(build_reshape(self.value, [-1 if size is None else size for size in sizes]), sizes)

    def _with_size(self, axis: int, size: int) -> Sizes:
        return (*self.sizes[:axis], size, *self.sizes[axis + 1 :])

    def _add(self, nodes: list[ir.Node], sizes: Sizes) -> None:
        self.value, self.sizes = self.nodes.add(*nodes), sizes
        self._owner.set_value_info(self.value, self._data, sizes, self._output)


def _product(sizes: Sizes) -> int | None:
    """Return the product of sizes, or None if one of them is open."""
    numbers = [size for size in sizes if size is not None]
    return prod(numbers) if len(numbers) == len(sizes) else None


def _replace_contested_end(entry: AxisSlice, *, is_reversal: bool) -> AxisSlice:
    """Return `entry`, but replace a backward slice to one of `CONTESTED_ENDS` by one that all engines read alike.

    If `is_reversal`, the new slice goes on to index 0, as onnxruntime reads such an end. Otherwise it selects nothing.
    """
    if entry.step > 0 or entry.end not in CONTESTED_ENDS:
        return entry
    return entry._replace(end=INT64_MIN) if is_reversal else NOTHING_OF_AN_AXIS


def normalize_entries(entries: Mapping[int, AxisSlice], sizes: Sizes | None) -> Entries:
    """Return bounds that select the same elements. Clamp them if the size is known, and leave out axes kept whole.

    >>> normalize_entries({1: AxisSlice(-1, -9, -2), 0: AxisSlice(0, 9, 1)}, (4, 6))
    {1: AxisSlice(start=5, end=0, step=-2)}
    >>> normalize_entries({0: AxisSlice(3, 1, 1), 1: AxisSlice(-1, -9, -2)}, (4, 6))
    {0: AxisSlice(start=0, end=0, step=1), 1: AxisSlice(start=0, end=3, step=1)}
    """
    known_sizes = {axis: size for axis in sorted(entries) if sizes is not None and (size := sizes[axis]) is not None}
    normal = {axis: entries[axis].within(known_sizes.get(axis)) for axis in sorted(entries)}
    counts = {axis: len(resolve_axis(*normal[axis], size)) for axis, size in known_sizes.items()}
    if NOTHING_OF_AN_AXIS in normal.values() or 0 in (sizes or ()):
        # Nothing is selected, so that only the number of indices matters on each axis.
        normal |= {axis: AxisSlice(0, count, 1) for axis, count in counts.items()}
    return {axis: entry for axis, entry in normal.items() if not entry.is_whole(known_sizes.get(axis))}


def _lists_exactly(node: ir.Node, opset: int, entries: Entries) -> bool:
    """Return whether a Slice already lists exactly these starts, ends, axes and steps, as int64."""
    starts, ends, steps = zip(*entries.values(), strict=True)
    # Before opset 10, a Slice has neither steps nor parameters that are inputs.
    spec = SliceSpec(starts, ends, tuple(entries), None if opset < SLICE_INPUTS_OPSET else steps)
    tensors = [constant(value) for value in node.inputs[1:] if value is not None]
    is_int64 = all(tensor is not None and tensor.dtype == ir.DataType.INT64 for tensor in tensors)
    return is_int64 and slice_spec(node, opset) == spec


class PortableSplitPass(PortablePass):
    """Write the sizes of a Split's parts, or replace the Split by a Slice for each part that is read.

    1. The sizes and the axis are written out, the axis counted from the front.
    2. A part is empty, or nothing reads it: each part that is read becomes a Slice, in the form of `PortableSlicePass`.
    3. There is one part: the Split becomes an Identity, or a Slice if the size of the axis is not known.
    4. `without` has `split`: as 2.

    Given: a, b, c = Split(x[6], axis=-1); y = Add(a, Add(b, c))
    Result: a, b, c = Split(x, [2, 2, 2], axis=0); y = Add(a, Add(b, c))

    Skipped: part sizes that are not constant; equal parts of an axis of unknown size.
    """

    op_types = ("Split",)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        data = data_of(node)
        sizes = self.sizes(data)
        # If engines read the Split differently, the standard counts. onnxruntime fails on such a Split, so each model
        # that runs there keeps its results.
        spec = split_spec_with_open_sizes(node, opset, sizes)
        used = [output for output in node.outputs if is_used(output)]
        # The Split stays a Split if it has several parts, all are read, none is empty, and the target has Split.
        if len(used) == len(spec.sizes) > 1 and 0 not in spec.sizes and "split" not in self.without:
            is_listed = has_sizes_input(node) if opset >= SPLIT_INPUT_OPSET else "split" in node.attributes
            if is_listed and "axis" in node.attributes and read_int(node, "axis", 0) == spec.axis:
                return
            new_nodes = build_split(data, spec.axis, spec.sizes, opset)
            new_nodes[-1].name = node.name
            self.replace_nodes([node], new_nodes, dict(zip(node.outputs, new_nodes[-1].outputs, strict=True)))
            self.report_change(node, "Split")
        else:
            self._replace_by_slices(node, opset, spec)

    def _replace_by_slices(self, node: ir.Node, opset: int, spec: SplitSpec) -> None:
        """Replace each used part of a Split by a Slice, or by an Identity if the part is all of the data."""
        data, parts = data_of(node), {}
        for output, (start, stop) in zip(node.outputs, spec.bounds, strict=True):
            if is_used(output):
                entries = normalize_entries({spec.axis: AxisSlice(start, stop, 1)}, self.sizes(data))
                slice_nodes = build_slice(data, entries, opset, lists_steps=True) if entries else []
                parts[output] = slice_nodes or [ir.node("Identity", [data])]
        self.replace_each_output(node, parts)
        self.report_change(node, ", ".join(dict.fromkeys(nodes[-1].op_type for nodes in parts.values())) or NOTHING)


class PortableConcatPass(PortablePass):
    """Remove the operands of a Concat that are known to be empty.

    1. The size of the operand on the axis of the Concat is 0, and the Concat has other operands.

    Given: y = Concat(x[4], x[4], Slice(x, [2], [2], [0], [1]), axis=0)
    Result: y = Concat(x, x, axis=0)

    A Concat with one operand left is removed; an output of the graph becomes an Identity.
    """

    op_types = ("Concat",)

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        axis = read_int(node, "axis", _CONCAT_AXIS_OF_OPSET_1)
        present = [value for value in node.inputs if value is not None]
        # If all operands are empty, the first one is the result.
        operands = [value for value in present if not self._is_empty(value, axis)] or [data_of(node)]
        if len(operands) == len(present) or len(present) < len(node.inputs):  # a missing operand is invalid
            return
        if len(operands) == 1:
            self.replace_outputs(node, {node.outputs[0]: operands[0]})
            return
        self.replace_node(node, [ir.node("Concat", operands, node.attributes)])

    def _is_empty(self, value: ir.Value, axis: int) -> bool:
        sizes = self.sizes(value)
        return bool(sizes and sizes[axis % len(sizes)] == 0)

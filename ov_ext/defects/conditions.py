"""The conditions on built-in Slice and StridedSlice nodes for the defects of `openvino.toml`."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from operator import and_, or_

import numpy as np
import openvino as ov

from ov_ext.model.passes import build_custom, kind_of, masks_of
from ov_ext.operators.inference import Bounds
from ov_ext.operators.static_values import bounds_of, list_bounds, list_length
from sliceport.defects.defect import Defect
from sliceport.defects.entries import read_entries
from sliceport.slicing import Entry, Masks

_DEFECTS = read_entries("openvino")

_FLOAT_EXACT = 2**24
"""The greatest integer up to which 32-bit floats hold every integer exactly."""
_INT32_MAX, _INT32_MIN = 2**31 - 1, -(2**31)
SUB_BYTES = frozenset({"u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1"})
"""Element types of less than a byte."""
_UNPACKED = frozenset({"u4", "i4"})
"""The types of `SUB_BYTES` whose elements the CPU plugin converts to bytes."""


class BuiltInNode:
    """A built-in slicing node, read once. For `data_dependent`, see `find_data_dependent`.

    Attributes:
        node: The node.
        op: `Slice` or `StridedSlice`.
        inputs: The inputs of the node.
        index_values: The elements of each index input. An element or a whole list is None if it is not known before
            the model runs.
        steps: The steps or strides in `index_values`; an empty list without this input, because all steps are 1.
        masks: The five masks, which are empty for Slice.
        at_run_time: Whether an element of an index input is not known before the model runs.
        count: Number of entries, or None if it is not known.
        rank: Rank of the data, or None if it is not known.
        element: Name of the data's element type.
    """

    def __init__(self, node: ov.Node, data_dependent: Container[int] = ()) -> None:
        self.node = node
        self.op, _ = kind_of(node)
        self.inputs = node.input_values()
        self.index_values = [_known_elements(list_bounds(source, data_dependent)) for source in self.inputs[1:]]
        self.steps = self.index_values[2] if len(self.index_values) > 2 else []
        self.at_run_time = any(values is None or None in values for values in self.index_values)
        self.masks = masks_of(node) if self.op == "StridedSlice" else Masks()
        lengths = [list_length(source) for source in self.inputs[1:]]
        self.count = next((length for length in lengths if length is not None), None)
        self.element = self.inputs[0].get_element_type().get_type_name()
        rank = self.inputs[0].get_partial_shape().rank
        self.rank = rank.get_length() if rank.is_static else None

    @cached_property
    def entries(self) -> list[Entry]:
        """The entries of a StridedSlice, each with the axis that it consumes; empty for a Slice, or if `count` is open.

        If the rank is open, `count` serves as the rank: at every rank that is large enough for all entries, the entries
        other than `keep` are the same.
        """
        if self.op == "Slice" or self.count is None:
            return []
        return self.masks.entries(self.count, self.count if self.rank is None else self.rank)

    @cached_property
    def may_reverse_empty_axis(self) -> bool:
        """Whether an entry of StridedSlice may walk backward through an empty axis."""
        if self.count is None:  # The number of entries is not known, so any axis may have an entry.
            shape = self.inputs[0].get_partial_shape()
            may_be_empty = shape.rank.is_dynamic or any(dim.get_min_length() == 0 for dim in shape)
            return self.op == "StridedSlice" and may_be_empty
        return any(map(self.entry_may_reverse_empty_axis, self.entries))

    @cached_property
    def custom_node(self) -> ov.Node:
        """The operator of ov_ext, which computes the right result from the same inputs."""
        return build_custom(self.node)

    def entry_may_reverse_empty_axis(self, entry: Entry) -> bool:
        """Return whether an entry slices an axis that may be empty, with a stride that may be negative."""
        if entry.kind != "slice":
            return False
        shape = self.inputs[0].get_partial_shape()
        if self.steps == [] or (shape.rank.is_static and shape[entry.axis].get_min_length() > 0):
            return False
        step = None if self.steps is None else self.steps[entry.position]
        return step is None or step < 0

    @cached_property
    def aligned_masks(self) -> Masks:
        """The masks with one bit for each entry, or as long as the longest mask if `count` is not known."""
        count = max(map(len, self.masks.attributes.values())) if self.count is None else self.count
        return self.masks.align(count)


def find_defects(view: BuiltInNode) -> list[Defect]:
    """Return the defects of OpenVINO that a node triggers."""
    return [*_find_mask_defects(view), *_find_index_defects(view), *_find_data_defects(view)]


def find_split_defects(node: ov.Node, data_dependent: Container[int]) -> Iterator[Defect]:
    """Yield the defects that a Split or VariadicSplit triggers. For `data_dependent`, see `find_data_dependent`."""
    data = node.input_value(0)
    element = data.get_element_type().get_type_name()
    if element in SUB_BYTES:
        yield _DEFECTS["Split of less than a byte, evaluated"]
        # The CPU plugin converts `_UNPACKED` types to bytes, but it folds a Split of constants as Model.evaluate does.
        if element not in _UNPACKED or data.get_node().get_instance_id() not in data_dependent:
            yield _DEFECTS["Split of less than a byte, on the CPU"]


def _find_mask_defects(view: BuiltInNode) -> Iterator[Defect]:
    """Yield the defects that the masks trigger. The `trigger` of each defect states its condition in words."""
    if view.op != "StridedSlice":
        return
    new, shrink, ellipsis = view.aligned_masks.new_axis, view.aligned_masks.shrink_axis, view.aligned_masks.ellipsis
    count = len(new)
    any_new, any_shrink = any(new), any(shrink)
    # Each entry is for a new axis or for an axis of the input.
    may_lack_entries = view.rank is None or count - sum(new) < view.rank
    if any_new and any_shrink and not any(ellipsis) and may_lack_entries:
        yield _DEFECTS["new axis and shrink with entries left out"]
    if any(map(and_, view.aligned_masks.begin, shrink)):
        yield _DEFECTS["begin mask on a shrunk axis"]
    if any(any(mask[count:]) for mask in (view.masks.new_axis, view.masks.shrink_axis, view.masks.ellipsis)):
        yield _DEFECTS["mask bits beyond the entries"]
    # Beside an ellipsis, entries of the kind `keep` are the axes that it stands for.
    has_hidden_axes = view.rank is not None and any(entry.kind == "keep" for entry in view.entries)
    may_be_empty_ellipsis = any(ellipsis) and not has_hidden_axes
    has_short_mask = any(len(mask) < count for mask in view.masks.attributes.values())
    if has_short_mask and (may_be_empty_ellipsis or (any_new and any_shrink)):
        yield _DEFECTS["masks shorter than the entries"]
    if any(map(and_, ellipsis, new)) or any(map(and_, ellipsis, shrink)):
        yield _DEFECTS["ellipsis shares its bit"]
    if view.at_run_time and 1 in ellipsis and any(new[ellipsis.index(1) + 1 :]):
        yield _DEFECTS["new axis after an ellipsis, begin at run time"]
    if _has_short_masks_behind_concat(view):
        yield _DEFECTS["short masks behind a Concat"]


def _has_short_masks_behind_concat(view: BuiltInNode) -> bool:
    """Return whether OpenVINO's removal of a Concat before a StridedSlice writes past the end of the masks."""
    data, masks = view.inputs[0], view.masks
    # EliminateConcatStridedSlice takes a Concat of static shape that several nodes read.
    is_shared_concat = data.get_node().get_type_name() == "Concat" and len(data.get_target_inputs()) > 1
    if view.at_run_time or not is_shared_concat or data.get_partial_shape().is_dynamic:
        return False
    axis = data.get_node().get_attributes()["axis"] % len(data.get_shape())
    is_plain = not any(masks.new_axis + masks.shrink_axis + masks.ellipsis)
    return is_plain and all(masks.begin + masks.end) and max(len(masks.begin), len(masks.end)) <= axis


def _find_index_defects(view: BuiltInNode) -> Iterator[Defect]:
    """Yield the defects that the index inputs trigger. The `trigger` of each defect states its condition in words."""
    least_bits = min(source.get_element_type().bitwidth for source in view.inputs[1:])
    shape = view.inputs[0].get_partial_shape()
    if view.count == 0 and view.at_run_time:
        yield _DEFECTS["no entries, at run time"]
    elif view.count == 0 and view.op == "Slice" and shape.is_dynamic and least_bits <= 8:
        yield _DEFECTS["no entries, in 8 bits"]
    is_constant = [values is not None and None not in values for values in view.index_values]
    # The condition is that start, stop and step are constant, and the axes are not.
    if view.op == "Slice" and is_constant == [True, True, True, False] and shape.is_static:
        yield _DEFECTS["axes alone at run time"]
    if view.count != 0 and least_bits < 8:
        yield _DEFECTS["indices of 4 bits"]
    if any(step is not None and step <= _INT32_MIN for step in view.steps or ()):
        yield _DEFECTS["stride beyond 32 bits"]
    # Only a list of type u64 can hold such a value.
    if any(value is not None and value >= 2**63 for values in view.index_values for value in values or ()):
        yield _DEFECTS["unsigned index beyond 63 bits"]


def _find_data_defects(view: BuiltInNode) -> Iterator[Defect]:
    """Yield the defects that the data or the inferred shapes trigger.

    A defect's `trigger` may also hold where the plugin is right, as for an empty result. Such nodes are left out.
    """
    data = view.inputs[0]
    shape = data.get_partial_shape()
    is_folded = data.get_node().get_type_name() == "Constant" and not view.at_run_time
    if view.element in SUB_BYTES and (is_folded or view.op == "StridedSlice" or view.element not in _UNPACKED):
        yield _DEFECTS["elements of less than a byte"]
    if view.element == "string":
        yield _DEFECTS["strings"]
    if view.op == "StridedSlice" and _may_be_scalar(view):
        yield _DEFECTS["of a scalar"]
    if view.may_reverse_empty_axis:
        yield _DEFECTS["backward through an empty axis"]
    if shape.rank.is_dynamic:
        return
    correct = _infer_for_plugin(view)
    inferred = view.node.output(0).get_partial_shape()
    if view.at_run_time and shape.is_static and correct.is_static and 0 not in correct.to_shape():
        yield _DEFECTS["indices at run time, all shapes known"]
    if correct.rank.is_static and inferred.rank.is_static and not _allows_all_sizes(inferred, correct):
        yield _DEFECTS["sizes known by bounds"]
    if correct.rank.is_static and correct != shape and any(map(_is_rounded_by_plugin, correct)):
        yield _DEFECTS["more than 2^24 elements on an axis"]


def _infer_for_plugin(view: BuiltInNode) -> ov.PartialShape:
    """Return the exact shape of the output, assuming that no open axis has more than INT32_MAX elements.

    The CPU plugin cannot slice longer axes: it narrows indices to 32 bits. Raise InvalidSlice as `build_custom` does.
    """
    data, *indices = view.inputs
    bounds = map(bounds_of, data.get_partial_shape())
    dims = [ov.Dimension(low, max(low, min(high, _INT32_MAX))) for low, high in bounds]
    inputs = [ov.op.Parameter(data.get_element_type(), ov.PartialShape(dims)).output(0)]
    for source, values in zip(indices, view.index_values, strict=True):
        # The operator would trace an unknown index through the network again, so a Parameter takes its place.
        unknown = ov.op.Parameter(source.get_element_type(), source.get_partial_shape()).output(0)
        inputs.append(unknown if values is None else source)
    return build_custom(view.node, inputs).output(0).get_partial_shape()


def _may_be_scalar(view: BuiltInNode) -> bool:
    """Return whether the data may be a scalar: its rank is 0, or its rank is open and no entry consumes an axis."""
    if view.rank is not None:
        return bool(view.rank == 0)
    # If `count` is open, assume that an entry consumes an axis.
    return view.count is not None and all(map(or_, view.aligned_masks.new_axis, view.aligned_masks.ellipsis))


def _is_rounded_by_plugin(size: ov.Dimension) -> bool:
    """Return whether the CPU plugin's 32-bit floats may round a size. Such floats skip some integers above 2**24."""
    if size.is_static:
        return bool(int(np.float32(size.get_length())) != size.get_length())
    return bool(size.get_min_length() > _FLOAT_EXACT)  # An open size is reported only if it is certainly above 2**24.


def _allows_all_sizes(inferred: ov.PartialShape, correct: ov.PartialShape) -> bool:
    """Return whether the inferred shape allows all sizes that the correct one allows, and no negative size."""
    if len(inferred) != len(correct):
        return False
    pairs = zip(map(bounds_of, inferred), map(bounds_of, correct), strict=True)
    # OpenVINO infers the lower bound -1 for some backward slices.
    return all(0 <= whole.low <= part.low and part.high <= whole.high for whole, part in pairs)


def _known_elements(bounds: Sequence[Bounds] | None) -> list[int | None] | None:
    """Return the elements of a list with these bounds. An element that may have several values is None."""
    return None if bounds is None else [bound.low if bound.is_exact else None for bound in bounds]

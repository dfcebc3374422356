"""What OpenVINO 2026.4 computes wrongly of the built-in Slice and StridedSlice, by conditions.

Each condition has an entry with a minimal model in `tests/divergences.py`, under the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import openvino as ov

from ov_ext.inference import Bounds
from ov_ext.passes import BUILT_IN, custom, inputs_of, kind_of, masks_of
from ov_ext.values import bounds_of, list_bounds, list_length
from sliceport.hardening import Defect
from sliceport.slicing import Entry, Masks, Region, SliceSpec, StridedSliceSpec

FLOAT_EXACT = 2**24
_INT32_MIN = -(2**31)
SUB_BYTES = frozenset({"u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1"})
_UNPACKED = frozenset({"u4", "i4"})
"""Those of less than a byte that the plugin makes bytes of."""

REFERENCE, CPU = "openvino", "openvino-cpu"
"""The engines: Model.evaluate, which constant folding calls too, and the CPU plugin."""


@dataclass(frozen=True)
class EngineDefect(Defect):
    """One thing that OpenVINO does wrong.

    Attributes:
        engines: `openvino`, `openvino-cpu`, or both.
        is_unsafe: Whether the engine ends the process, or may, as it reads or frees memory that is not its own: no
            such node is run in the process of the user.
    """

    engines: tuple[str, ...] = (CPU,)
    is_unsafe: bool = False


NEW_AND_SHRINK = EngineDefect(
    "new axis and shrink with entries left out",
    "with a new axis and a shrunk one and fewer entries than axes, memory comes out that was never written",
)
BEGIN_MASK_AND_SHRINK = EngineDefect(
    "begin mask on a shrunk axis",
    "where begin_mask and shrink_axis_mask share a bit, element 0 is taken instead of element begin",
)
BITS_BEYOND = EngineDefect(
    "mask bits beyond the entries",
    "bits of new_axis_mask, shrink_axis_mask and ellipsis_mask beyond the last entry are not ignored",
    is_unsafe=True,
)
SHORT_MASKS = EngineDefect(
    "masks shorter than the entries",
    "with an ellipsis that stands for no axis, or a new axis and a shrunk one, masks shorter than the entries are read "
    "beside them",
    is_unsafe=True,
)
SHARED_ELLIPSIS = EngineDefect(
    "ellipsis shares its bit",
    "where the ellipsis shares its bit with a new axis or a shrink, constant folding and Model.evaluate compute "
    "another shape than is inferred",
    (REFERENCE,),
)
REVERSED_NOTHING = EngineDefect(
    "backward through an empty axis",
    "constant folding and Model.evaluate read one element of an axis that has none",
    (REFERENCE,),
    is_unsafe=True,
)
SCALAR = EngineDefect(
    "of a scalar",
    "constant folding and Model.evaluate read a scalar from memory that is not its own",
    (REFERENCE,),
    is_unsafe=True,
)
FAR_STRIDE = EngineDefect(
    "stride beyond 32 bits",
    "a stride of -2^31 or below ends the process by a division",
    is_unsafe=True,
)
MANY_ELEMENTS = EngineDefect(
    "more than 2^24 elements on an axis",
    "sizes are computed in 32-bit floats, so the last elements are never written",
)
FIXED_SHAPE = EngineDefect(
    "indices at run time, all shapes known",
    "where the shapes of data and output are known although indices only come at run time, nothing is prepared to run: "
    "that fails, or gives memory that is not its own",
    is_unsafe=True,
)
ELLIPSIS_THEN_NEW = EngineDefect(
    "new axis after an ellipsis, begin at run time",
    "the new axis is inferred at the wrong place",
)
UNSIGNED_INDEX = EngineDefect(
    "unsigned index beyond 63 bits",
    "constant folding, Model.evaluate and shape inference read it as a negative one",
    (REFERENCE,),
)
WRONG_BOUNDS = EngineDefect(
    "sizes known by bounds",
    "the inferred bounds leave out sizes that the input's bounds allow, and those fail when they come",
)
NO_ENTRIES = EngineDefect(
    "no entries, at run time",
    "lists of indices that are empty and no constants are read from memory that is not theirs",
    is_unsafe=True,
)
NARROW_NO_ENTRIES = EngineDefect(
    "no entries, in 8 bits",
    "constant lists of indices that are empty and of 8 bits or less are read from memory that is not theirs",
    is_unsafe=True,
)
AXES_AT_RUN_TIME = EngineDefect(
    "axes alone at run time",
    "where the data's shape and all indices but the axes are known, memory is read that is not its own, which ends the "
    "process",
    is_unsafe=True,
)
PACKED_INDEX = EngineDefect(
    "indices of 4 bits",
    "constant folding, Model.evaluate and shape inference take the bytes of lists of i4 and u4 for their elements",
    (REFERENCE,),
    is_unsafe=True,
)
SUB_BYTE = EngineDefect(
    "elements of less than a byte",
    "StridedSlice by Model.evaluate, constant folding, and the plugin but for u4 and i4, take bytes for elements",
    (REFERENCE, CPU),
    is_unsafe=True,
)
STRINGS = EngineDefect(
    "strings",
    "strings are copied as bytes, so two tensors own the same memory, and freeing it twice ends the process",
    (REFERENCE, CPU),
    is_unsafe=True,
)
DEFECTS = (
    NEW_AND_SHRINK,
    BEGIN_MASK_AND_SHRINK,
    BITS_BEYOND,
    SHORT_MASKS,
    SHARED_ELLIPSIS,
    REVERSED_NOTHING,
    SCALAR,
    FAR_STRIDE,
    MANY_ELEMENTS,
    FIXED_SHAPE,
    ELLIPSIS_THEN_NEW,
    UNSIGNED_INDEX,
    WRONG_BOUNDS,
    NO_ENTRIES,
    NARROW_NO_ENTRIES,
    AXES_AT_RUN_TIME,
    PACKED_INDEX,
    SUB_BYTE,
    STRINGS,
)


class BuiltInNode:
    """A built-in slicing node, read once.

    Attributes:
        node: The node.
        op: `Slice` or `StridedSlice`.
        inputs: What it reads.
        values: For each index input its elements, None where one is not known before the model runs; None for all.
        masks: The five masks; all empty for Slice.
        at_run_time: Whether an element of an index input is not known before the model runs.
        count: Number of entries; None if it is not known.
        rank: Rank of the data; None if it is not known.
        element: Name of the data's element type.
    """

    def __init__(self, node: ov.Node) -> None:
        self.node = node
        self.op = BUILT_IN[kind_of(node)]
        self.inputs = inputs_of(node)
        found = [list_bounds(source) for source in self.inputs[1:]]
        self.values = [_exact(bounds) for bounds in found]
        self.at_run_time = any(values is None or None in values for values in self.values)
        self.masks = masks_of(node) if self.op == "StridedSlice" else Masks()
        lengths = [list_length(source) for source in self.inputs[1:]]
        self.count = next((length for length in lengths if length is not None), None)
        self.element = self.inputs[0].get_element_type().get_type_name()
        rank = self.inputs[0].get_partial_shape().rank
        self.rank = rank.get_length() if rank.is_static else None

    @cached_property
    def entries(self) -> list[Entry]:
        """The entries beside the axes, where those are known; Slice's are not aligned so."""
        return [] if self.rank is None else self._align(self.rank)

    @cached_property
    def may_reverse_an_empty_axis(self) -> bool:
        """Whether any entry of StridedSlice does; of data of unknown rank, any axis may be empty."""
        entries = self.entries if self.rank is not None else self._align(self.count or 0)
        return any(map(self.may_reverse_nothing, entries))

    @cached_property
    def ours(self) -> ov.Node:
        """Our operator on the same inputs: what is right."""
        return custom(self.node)

    @cached_property
    def region(self) -> Region | None:
        """What is selected; None where the data's shape or an index is not known before the model runs.

        Raises:
            InvalidSlice: The node breaks the rules.
        """
        shape, values = self.inputs[0].get_partial_shape(), self.all_values
        if shape.is_dynamic or values is None:
            return None
        first, second, *rest = map(tuple, values)
        spec: SliceSpec | StridedSliceSpec
        if self.op == "Slice":
            spec = SliceSpec(first, second, rest[1] if len(rest) > 1 else None, rest[0])
        else:
            spec = StridedSliceSpec(first, second, rest[0] if rest else None, self.masks)
        return spec.resolve(tuple(shape.to_shape()))

    @property
    def all_values(self) -> list[list[int]] | None:
        """The elements of all index inputs, if all are known."""
        known = [values for values in self.values if values is not None and None not in values]
        return known if len(known) == len(self.values) else None  # type: ignore[return-value]

    def may_reverse_nothing(self, entry: Entry) -> bool:
        """Whether an entry of StridedSlice slices an axis that may be empty, by a stride that may be negative."""
        if entry.kind != "slice":
            return False
        shape = self.inputs[0].get_partial_shape()
        if len(self.values) < 3 or (shape.rank.is_static and shape[entry.axis].get_min_length() > 0):
            return False
        steps = self.values[2]
        step = None if steps is None else steps[entry.position]
        return step is None or step < 0

    def _align(self, rank: int) -> list[Entry]:
        if self.op == "Slice" or self.count is None:
            return []
        return self.masks.entries(self.count, rank)

    @cached_property
    def bits(self) -> Masks:
        """The masks with one bit per entry, where the number of entries is known."""
        return self.masks if self.count is None else self.masks.align(self.count)


def defects(view: BuiltInNode) -> list[EngineDefect]:
    """Which of `DEFECTS` a node has."""
    return [*_of_masks(view), *_of_values(view), *_of_data(view)]


def _of_masks(view: BuiltInNode) -> Iterator[EngineDefect]:
    if view.op != "StridedSlice" or view.count is None:
        return
    new, shrink, ellipsis = view.bits.new_axis, view.bits.shrink_axis, view.bits.ellipsis
    any_new, any_shrink = any(new), any(shrink)
    if any_new and any_shrink and not any(ellipsis) and (view.rank is None or view.count < view.rank + sum(new)):
        yield NEW_AND_SHRINK
    if any(map(_both, view.bits.begin, shrink)):
        yield BEGIN_MASK_AND_SHRINK
    if any(any(mask[view.count :]) for mask in (view.masks.new_axis, view.masks.shrink_axis, view.masks.ellipsis)):
        yield BITS_BEYOND
    hides_nothing = any(ellipsis) and not any(entry.kind == "keep" for entry in view.entries)
    if any(len(mask) < view.count for mask in view.masks.attributes.values()) and (
        hides_nothing or (any_new and any_shrink)
    ):
        yield SHORT_MASKS
    if any(map(_both, ellipsis, new)) or any(map(_both, ellipsis, shrink)):
        yield SHARED_ELLIPSIS
    if view.at_run_time and 1 in ellipsis and any(new[ellipsis.index(1) + 1 :]):
        yield ELLIPSIS_THEN_NEW


def _of_values(view: BuiltInNode) -> Iterator[EngineDefect]:
    if view.count == 0 and view.at_run_time:
        yield NO_ENTRIES
    elif view.count == 0 and view.op == "Slice" and view.inputs[0].get_partial_shape().is_dynamic:
        narrow = [source for source in view.inputs[1:] if source.get_element_type().bitwidth <= 8]
        if narrow:
            yield NARROW_NO_ENTRIES
    known = [values is not None and None not in values for values in view.values]
    if view.op == "Slice" and known == [True, True, True, False] and view.inputs[0].get_partial_shape().is_static:
        yield AXES_AT_RUN_TIME
    if view.count != 0 and any(source.get_element_type().bitwidth < 8 for source in view.inputs[1:]):
        yield PACKED_INDEX
    steps = view.values[2] if len(view.values) > 2 else None
    if any(step is not None and step <= _INT32_MIN for step in steps or ()):
        yield FAR_STRIDE
    for source, values in zip(view.inputs[1:], view.values, strict=True):
        if source.get_element_type() == ov.Type.u64 and any(
            value is not None and value >= 2**63 for value in values or ()
        ):
            yield UNSIGNED_INDEX
            return


def _of_data(view: BuiltInNode) -> Iterator[EngineDefect]:
    data = view.inputs[0]
    shape = data.get_partial_shape()
    is_folded = data.get_node().get_type_name() == "Constant" and view.all_values is not None
    if view.element in SUB_BYTES and (is_folded or view.op == "StridedSlice" or view.element not in _UNPACKED):
        yield SUB_BYTE
    if view.element == "string":
        yield STRINGS
    if view.op == "StridedSlice" and _may_be_scalar(view):
        yield SCALAR
    if view.may_reverse_an_empty_axis:
        yield REVERSED_NOTHING
    if shape.rank.is_dynamic:
        return
    exact = view.ours.output(0).get_partial_shape()
    inferred = view.node.output(0).get_partial_shape()
    if view.at_run_time and shape.is_static and exact.is_static and 0 not in exact.to_shape():
        yield FIXED_SHAPE
    if exact.rank.is_static and inferred.rank.is_static and not _contains(inferred, exact):
        yield WRONG_BOUNDS
    if exact.rank.is_static and exact != shape and any(map(_is_counted_in_floats, exact)):
        yield MANY_ELEMENTS


def _may_be_scalar(view: BuiltInNode) -> bool:
    """Whether the data can be a scalar: its rank is 0, or not known, and no entry takes an axis."""
    if view.rank is not None or view.count is None:
        return view.rank == 0
    return all(map(_either, view.bits.new_axis, view.bits.ellipsis))


def _is_counted_in_floats(size: ov.Dimension) -> bool:
    """Whether a size surely is one that 32-bit floats do not hold, so that counting in them goes wrong."""
    if size.is_static:
        return bool(int(np.float32(size.get_length())) != size.get_length())
    return bool(size.get_min_length() > FLOAT_EXACT)


def _contains(inferred: ov.PartialShape, exact: ov.PartialShape) -> bool:
    """Whether all sizes are within the inferred ones; where those make no sense, their low end is -1."""
    if len(inferred) != len(exact):
        return False
    pairs = zip(map(bounds_of, inferred), map(bounds_of, exact), strict=True)
    return all(0 <= whole.low <= part.low and part.high <= whole.high for whole, part in pairs)


def _either(a: int, b: int) -> bool:
    return bool(a or b)


def _both(a: int, b: int) -> bool:
    return bool(a and b)


def _exact(bounds: Sequence[Bounds] | None) -> list[int | None] | None:
    return None if bounds is None else [bound.low if bound.is_exact else None for bound in bounds]

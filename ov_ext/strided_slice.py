"""StridedSlice-1 as a custom operator: inputs data, begin, end and, optionally, strides; five masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import openvino as ov

from ov_ext.inference import ANY_INDEX, Bounds, check_shrunk_index, sliced_size
from ov_ext.slicing_op import VERSION, SlicingOp
from ov_ext.values import is_integral, list_length
from sliceport.errors import InvalidSlice
from sliceport.slicing import Masks, Region, StridedSliceSpec

NAMES = ("begin", "end", "strides")


class StridedSlice(SlicingOp):
    """OpenVINO StridedSlice-1.

    Inputs: `data` of any type and rank; `begin`, `end` and, optionally, `strides` (1 everywhere without): lists of
    integers of one length. The masks hold 0 and 1, aligned with the entries of `begin`; missing bits are 0, further
    ones are ignored. At one entry the ellipsis goes before the new axis, that before the shrink, that before a slice.

    Source: OpenVINO's StridedSlice-1 page, and OpenVINO itself where that contradicts it (`docs/strided_slice.md`).
    """

    class_type_info: ClassVar[ov.DiscreteTypeInfo] = ov.DiscreteTypeInfo("StridedSlice1", VERSION)

    def __init__(
        self,
        inputs: Sequence[Any] | None = None,
        *,
        begin_mask: Sequence[int] = (),
        end_mask: Sequence[int] = (),
        new_axis_mask: Sequence[int] = (),
        shrink_axis_mask: Sequence[int] = (),
        ellipsis_mask: Sequence[int] = (),
    ) -> None:
        """Make the operator of nodes, outputs of nodes, or values that become constants.

        Without inputs OpenVINO sets them, and the masks, later.

        Raises:
            InvalidSlice: The inputs or masks break the rules.
        """
        super().__init__()
        given = (begin_mask, end_mask, new_axis_mask, shrink_axis_mask, ellipsis_mask)
        self._masks = Masks(*[tuple(map(int, mask)) for mask in given])
        if inputs is not None:
            self.set_inputs(inputs)

    @property
    def masks(self) -> dict[str, tuple[int, ...]]:
        """The five masks by name."""
        return self._masks.attributes

    def without_inputs(self) -> StridedSlice:
        """The same operator, not connected."""
        new = type(self)()
        new._masks = self._masks
        return new

    def visit_attributes(self, visitor: Any) -> bool:
        """Write or read the masks; OpenVINO cannot write an empty list, and 0 alone means the same."""
        lists = {name: list(mask) or [0] for name, mask in self._masks.attributes.items()}
        try:
            visitor.on_attributes(lists)
        except RuntimeError:
            raise InvalidSlice(f"{self.label()}: the masks must be lists of 0 and 1.") from None
        self._masks = Masks.of(lists)
        self.connect_fixed(visitor, NAMES)
        self.forget()
        return True

    def check_inputs(self) -> None:
        """Check ranks, lengths and types of the index inputs, and the masks."""
        count = self.get_input_size()
        if count not in (3, 4):
            raise InvalidSlice(f"it has 3 or 4 inputs, got {count}")
        lengths = {}
        for i, name in enumerate(NAMES[: count - 1], start=1):
            source = self.input_value(i)
            element, rank = source.get_element_type(), source.get_partial_shape().rank
            if element.is_static() and not is_integral(element):
                raise InvalidSlice(f"{name} must hold integers, got {element.get_type_name()}")
            if rank.is_static and rank.get_length() != 1:
                raise InvalidSlice(f"{name} must be a list, got rank {rank.get_length()}")
            lengths[name] = list_length(source)
        known = {name: length for name, length in lengths.items() if length is not None}
        if len(set(known.values())) > 1:
            raise InvalidSlice(f"begin, end and strides must have the same length, got {known}")
        self._masks.check()

    def output_dimensions(
        self, sizes: list[Bounds], indices: list[list[Bounds] | None]
    ) -> list[tuple[Bounds, int | None]] | None:
        """Bounds of each output size."""
        count = next((n for n in map(list_length, self._index_sources()) if n is not None), None)
        if count is None:
            return None
        begin, end, *rest = indices
        strides = rest[0] if rest else [Bounds(1, 1)] * count
        masks = self._masks.align(count)
        output: list[tuple[Bounds, int | None]] = []
        for kind, i, axis in self._masks.entries(count, len(sizes)):
            if kind == "new":
                output.append((Bounds(1, 1), None))
            elif kind == "keep":
                output.append((sizes[axis], axis))
            elif kind == "shrink":
                check_shrunk_index(i, axis, sizes[axis], ANY_INDEX if begin is None else begin[i])
            elif kind == "slice":
                stride = strides[i].low if strides is not None and strides[i].is_exact else None
                if stride == 0:
                    raise InvalidSlice(f"the stride of axis {axis} (entry {i}) is 0, but it must not be")
                first, stop = _bound(begin, masks.begin[i], i), _bound(end, masks.end[i], i)
                found = sliced_size(sizes[axis], first, stop, stride)
                output.append((found.bounds, axis if found.keeps_size else None))
        return output

    def region(self, shape: tuple[int, ...], indices: tuple[tuple[int, ...], ...]) -> Region:
        """What is selected from data of a shape."""
        begin, end, *strides = indices
        return StridedSliceSpec(begin, end, strides[0] if strides else None, self._masks).resolve(shape)


def _bound(index: list[Bounds] | None, is_ignored: int, i: int) -> Bounds | None:
    """Bounds of an entry; None where its mask bit says that it is ignored."""
    if is_ignored:
        return None
    return ANY_INDEX if index is None else index[i]

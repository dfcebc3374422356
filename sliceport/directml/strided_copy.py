"""A strided copy: the axes along which a slicing operator walks its input and output buffers.

It is made from a `Region` and the strides of the buffers, and becomes a descriptor of DirectML. Axes may be dropped,
reordered or merged, and elements may be recast to another width, as long as the same bytes go to the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from sliceport.directml.elements import Carrier
from sliceport.directml.tensor import packed_strides
from sliceport.slicing import Region, coalesce


@dataclass(frozen=True, slots=True)
class StridedCopy:
    """A copy of elements from one input buffer to one or more output buffers.

    The axes are listed from outermost to innermost. Axes of one element are left out, so the copy of a
    single element has no axes. But `recast` keeps an axis whose elements it has put into one larger element.

    Attributes:
        sizes: Input size per axis.
        input_strides: Elements of the input buffer per step along each axis.
        selected: For each output, the selected indices on each axis.
        output_strides: For each output, elements of its buffer per step along each axis. The number for an axis with a
            single index has no meaning.
        split_axis: The axis that the outputs tile, as a position in `sizes`; None for a copy to one output.
    """

    sizes: tuple[int, ...]
    input_strides: tuple[int, ...]
    selected: tuple[tuple[range, ...], ...]
    output_strides: tuple[tuple[int, ...], ...]
    split_axis: int | None = None

    @classmethod
    def of(
        cls,
        regions: Sequence[Region],
        input_strides: Sequence[int] | None,
        output_strides: Sequence[Sequence[int] | None],
        split_axis: int | None = None,
    ) -> StridedCopy:
        """Return the copy of each region to its own output.

        Neighbouring axes are merged where the strides allow it. If the strides are not packed, the order of the axes is
        chosen so that few axes remain.

        Args:
            regions: The non-empty region of each output; all have the same input shape.
            input_strides: Elements per step along each input axis; None for packed strides.
            output_strides: For each output, elements per step along each of its own axes; None for packed strides.
            split_axis: The input axis that the regions tile, for a copy that becomes one SPLIT; None for one region.
        """
        shape = regions[0].input_shape
        all_packed = input_strides is None and all(strides is None for strides in output_strides)
        if all_packed and split_axis is None:
            # A shortcut for most copies: packed tensors are still packed after axes are merged.
            sizes, selected, _ = coalesce(shape, regions[0].ranges)
            output = packed_strides([len(indices) for indices in selected])
            return cls(tuple(sizes), packed_strides(sizes), (tuple(selected),), (output,))
        strides = packed_strides(shape) if input_strides is None else tuple(input_strides)
        outputs = tuple(
            _align_strides(region, packed_strides(region.output_shape) if requested is None else requested)
            for region, requested in zip(regions, output_strides, strict=True)
        )
        copy = cls(shape, strides, tuple(region.ranges for region in regions), outputs, split_axis)._simplify_axes()
        if all_packed:
            return copy._coalesce()  # another order would merge no more axes of packed tensors
        candidates = [copy._take_axes(order)._coalesce() for order in copy._list_orders()]
        # Prefer few axes, because operators accept few. Of candidates with equally many axes, prefer one with an
        # innermost stride of 1, because small elements can then be copied in groups.
        return min(candidates, key=lambda candidate: (len(candidate.sizes), not candidate._has_unit_innermost_stride))

    @property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """For each output, the number of selected indices on each axis."""
        return tuple(tuple(map(len, selected)) for selected in self.selected)

    @property
    def _has_unit_innermost_stride(self) -> bool:
        """Whether the innermost stride of every buffer is 1, so that several elements can be copied as one."""
        return all(strides[-1:] == (1,) for strides in (self.input_strides, *self.output_strides))

    def recast(self, carrier: Carrier) -> StridedCopy | None:
        """Return a copy that moves the same bytes as this one, in elements of the carrier's width.

        Return None if several elements share a carrier element and the copy does not move all of them together, in the
        same order.
        """
        if carrier.spread > 1:
            return self._split_elements(carrier.spread)
        if carrier.group > 1:
            return self._group_elements(carrier.group)
        return self

    def _simplify_axes(self) -> StridedCopy:
        """Return this copy with shorter broadcast axes, and without axes of one element.

        All indices of a broadcast axis (stride 0) read the same element. So only the number of selected indices
        matters, and the axis is shortened to this number.
        """
        sizes, selected = list(self.sizes), [list(ranges) for ranges in self.selected]
        for axis, stride in enumerate(self.input_strides):
            if stride == 0 and axis != self.split_axis:  # outputs may select different counts on the split axis
                sizes[axis] = len(selected[0][axis])
                for ranges in selected:
                    ranges[axis] = range(sizes[axis])
        shortened = replace(self, sizes=tuple(sizes), selected=tuple(map(tuple, selected)))
        return shortened._take_axes([axis for axis, size in enumerate(sizes) if size > 1])

    def _take_axes(self, order: Sequence[int]) -> StridedCopy:
        """Return this copy with only the axes in `order`, in that order. A `split_axis` must be in `order`."""
        return StridedCopy(
            tuple(self.sizes[axis] for axis in order),
            tuple(self.input_strides[axis] for axis in order),
            tuple(tuple(ranges[axis] for axis in order) for ranges in self.selected),
            tuple(tuple(strides[axis] for axis in order) for strides in self.output_strides),
            None if self.split_axis is None else list(order).index(self.split_axis),
        )

    def _list_orders(self) -> list[list[int]]:
        """Return the orders of axes to try.

        Up to 4 axes are tried in all orders. More axes have too many orders, so only these are tried: the original
        order and, for each buffer, the order from its largest stride to its smallest.
        """
        axes = list(range(len(self.sizes)))
        if len(axes) <= 4:
            return [list(order) for order in permutations(axes)]
        layouts = (self.input_strides, *self.output_strides)
        return [axes, *(sorted(axes, key=strides.__getitem__, reverse=True) for strides in layouts)]

    def _coalesce(self) -> StridedCopy:
        """Return this copy with axes merged by `coalesce` if they are contiguous in the input and in every output."""
        contiguous = [self._is_contiguous(axis) for axis in range(len(self.sizes) - 1)]
        merged = [coalesce(self.sizes, ranges, contiguous) for ranges in self.selected]
        # Only a SPLIT has several outputs. Each output selects all axes whole, except the split axis, so the same axes
        # merge for each output.
        sizes, _, innermost = merged[0]
        # `groups[i]` is the range of the original axes that became merged axis i. `innermost[i]` is the last of them.
        groups = [range(0 if i == 0 else innermost[i - 1] + 1, last + 1) for i, last in enumerate(innermost)]
        output_strides = tuple(
            tuple(_take_innermost_stride(group, counts, strides) for group in groups)
            for counts, strides in zip(self.counts, self.output_strides, strict=True)
        )
        split_axis = None
        if self.split_axis is not None:
            split_axis = next(i for i, group in enumerate(groups) if self.split_axis in group)
        return StridedCopy(
            tuple(sizes),
            tuple(self.input_strides[axis] for axis in innermost),
            tuple(tuple(selected) for _, selected, _ in merged),
            output_strides,
            split_axis,
        )

    def _is_contiguous(self, axis: int) -> bool:
        """Whether the stride of `axis` equals the extent of the next axis, in the input and in every output.

        In an output, the stride of an axis matters only if several indices of the axis are selected. So if one index of
        the next axis is selected, nothing is compared. If one index of `axis` is selected, the nearest outer axis with
        several indices is compared in its place, because merging the axes one by one would join this axis to the next
        one. The search for this axis ends where the input is not contiguous, because no more axes are merged there.
        """
        inner = axis + 1
        if not self._is_contiguous_in_input(axis):
            return False
        for counts, strides in zip(self.counts, self.output_strides, strict=True):
            outer = axis
            while counts[outer] == 1 and outer and self._is_contiguous_in_input(outer - 1):
                outer -= 1
            if counts[inner] > 1 and counts[outer] > 1 and strides[outer] != counts[inner] * strides[inner]:
                return False
        return True

    def _is_contiguous_in_input(self, axis: int) -> bool:
        """Whether `axis` and the next axis are contiguous in the input. False if the next axis is the split axis."""
        inner = axis + 1
        if inner == self.split_axis:  # an output has only a part of this axis
            return False
        return self.input_strides[axis] == self.sizes[inner] * self.input_strides[inner]

    def _split_elements(self, spread: int) -> StridedCopy:
        """Return this copy with each element replaced by `spread` smaller elements along a new innermost axis."""
        return StridedCopy(
            (*self.sizes, spread),
            (*(stride * spread for stride in self.input_strides), 1),
            tuple((*ranges, range(spread)) for ranges in self.selected),
            tuple((*(stride * spread for stride in strides), 1) for strides in self.output_strides),
            self.split_axis,
        )._coalesce()

    def _group_elements(self, group: int) -> StridedCopy | None:
        """Return this copy with every `group` neighbouring elements replaced by one larger element.

        Return None if the copy does not move whole larger elements. But the last larger element of a buffer may be
        partly padding, like the last byte of 4-bit elements. A copy of a single element is returned unchanged.
        """
        if not self.sizes:  # a single element, which is copied with the padding after it
            return self
        inner = len(self.sizes) - 1
        size = self.sizes[inner]
        if self.input_strides[inner] != 1 or any(stride % group for stride in self.input_strides[:inner]):
            return None
        selected, output_strides = [], []
        for ranges, strides, counts in zip(self.selected, self.output_strides, self.counts, strict=True):
            indices = ranges[inner]
            if not _has_whole_groups(indices, strides, counts, size, group):
                return None
            selected.append((*ranges[:inner], range(indices.start // group, -(-indices.stop // group))))  # rounded up
            output_strides.append((*(stride // group for stride in strides[:inner]), 1))
        return StridedCopy(
            (*self.sizes[:inner], -(-size // group)),
            (*(stride // group for stride in self.input_strides[:inner]), 1),
            tuple(selected),
            tuple(output_strides),
            self.split_axis,
        )


def _align_strides(region: Region, strides: Sequence[int]) -> tuple[int, ...]:
    """Return one output stride for each input axis of a region that is not empty.

    An input axis with several selected indices gets the stride of the output axis that it becomes, from `strides`. An
    input axis with one selected index gets 1.
    """
    # A region adds or drops only axes of size 1, so its ranges and output axes longer than 1 correspond in order.
    strides_of_longer = iter([stride for size, stride in zip(region.output_shape, strides, strict=True) if size != 1])
    return tuple(1 if len(selected) == 1 else next(strides_of_longer) for selected in region.ranges)


def _has_whole_groups(indices: range, strides: Sequence[int], counts: Sequence[int], size: int, group: int) -> bool:
    """Return whether an output takes whole groups of elements from the innermost axis of the input, of size `size`.

    `indices` are those of this axis. `strides` and `counts` are those of all axes of the output.
    """
    if indices.step != 1 or indices.start % group or (len(indices) > 1 and strides[-1] != 1):
        return False
    # A partial last group must stand at the end of the input's axis. Nothing may follow it in the output, so every
    # outer axis must have one index.
    may_be_partial = indices.stop == size and all(count == 1 for count in counts[:-1])
    if len(indices) % group and not may_be_partial:
        return False
    outer_strides = zip(strides[:-1], counts[:-1], strict=True)
    return not any(stride % group for stride, count in outer_strides if count > 1)


def _take_innermost_stride(group: range, counts: Sequence[int], strides: Sequence[int]) -> int:
    """Return the stride of the innermost axis in `group` whose count exceeds 1, or any stride if all counts are 1."""
    return next((strides[axis] for axis in reversed(group) if counts[axis] > 1), strides[group[-1]])

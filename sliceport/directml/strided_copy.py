"""A strided copy: the axes along which a slicing operator walks its input and output buffers.

It is the form between a `Region` and DirectML's descriptors, and has the strides of both buffers. Axes may be dropped,
reordered, merged and recast to another element width, as long as the same bytes go to the same places.
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
    """One input copied to one or more outputs, outermost axis first.

    Every axis has more than one input element, unless `recast` puts all of them into one larger element.

    Attributes:
        sizes: Input size per axis.
        input_strides: Elements of the input buffer per step along each axis.
        selected: Per output, the indices selected on each axis.
        output_strides: Per output, elements of its buffer per step along each axis (any number for a single index).
        split_axis: The axis that the outputs tile, as a position in `sizes`; None for a copy to one output.
        is_packed: Whether all strides are known to be those of packed row-major tensors.
    """

    sizes: tuple[int, ...]
    input_strides: tuple[int, ...]
    selected: tuple[tuple[range, ...], ...]
    output_strides: tuple[tuple[int, ...], ...]
    split_axis: int | None = None
    is_packed: bool = False

    @classmethod
    def of(
        cls,
        regions: Sequence[Region],
        input_strides: Sequence[int] | None,
        output_strides: Sequence[Sequence[int] | None],
        split_axis: int | None = None,
    ) -> StridedCopy:
        """Return the copy that selects non-empty regions of one shape, coalesced in the best of several axis orders.

        Args:
            regions: The region of each output.
            input_strides: Elements per step along each input axis; None for packed.
            output_strides: Elements per step along each output's own axes; None for packed.
            split_axis: The input axis that the regions tile, for a copy that becomes one SPLIT.
        """
        shape = regions[0].input_shape
        all_packed = input_strides is None and not any(strides is not None for strides in output_strides)
        if all_packed and split_axis is None:
            sizes, selected, _ = coalesce(shape, regions[0].ranges)
            output = packed_strides([len(indices) for indices in selected])
            return cls(tuple(sizes), packed_strides(sizes), (tuple(selected),), (output,), is_packed=True)
        strides = packed_strides(shape) if input_strides is None else tuple(input_strides)
        outputs = tuple(
            _align_strides(region, packed_strides(region.output_shape) if requested is None else requested, split_axis)
            for region, requested in zip(regions, output_strides, strict=True)
        )
        copy = cls(shape, strides, tuple(region.ranges for region in regions), outputs, split_axis)._drop_repeats()
        if all_packed:
            return copy._coalesce()
        candidates = [copy._reorder(order)._coalesce() for order in copy._list_orders()]
        return min(candidates, key=lambda candidate: (len(candidate.sizes), not candidate._is_unit_innermost))

    @property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """Per output, the number of elements selected on each axis."""
        return tuple(tuple(map(len, selected)) for selected in self.selected)

    @property
    def _is_unit_innermost(self) -> bool:
        """Whether the elements of the innermost axis are adjacent, so that several can be copied as one."""
        return all(strides[-1:] == (1,) for strides in (self.input_strides, *self.output_strides))

    def recast(self, carrier: Carrier) -> StridedCopy | None:
        """Return a copy of the same bytes as elements of `carrier`, or None if a carrier element would be cut."""
        if carrier.spread > 1:
            return self._split_elements(carrier.spread)
        if carrier.group > 1:
            return self._group_elements(carrier.group)
        return self

    def _drop_repeats(self) -> StridedCopy:
        """Drop axes of one element, and cut broadcast axes (stride 0) to the number of selected indices.

        All indices of a broadcast axis read the same element, so only their number matters.
        """
        sizes, selected = list(self.sizes), [list(ranges) for ranges in self.selected]
        for axis, stride in enumerate(self.input_strides):
            if stride == 0 and axis != self.split_axis:
                sizes[axis] = len(selected[0][axis])
                for ranges in selected:
                    ranges[axis] = range(sizes[axis])
        narrowed = replace(self, sizes=tuple(sizes), selected=tuple(map(tuple, selected)))
        return narrowed._reorder([axis for axis, size in enumerate(sizes) if size > 1])

    def _reorder(self, order: Sequence[int]) -> StridedCopy:
        """Return this copy with only the axes in `order`. It does not count as packed, because axes may move."""
        return StridedCopy(
            tuple(self.sizes[axis] for axis in order),
            tuple(self.input_strides[axis] for axis in order),
            tuple(tuple(ranges[axis] for axis in order) for ranges in self.selected),
            tuple(tuple(strides[axis] for axis in order) for strides in self.output_strides),
            None if self.split_axis is None else list(order).index(self.split_axis),
        )

    def _list_orders(self) -> list[list[int]]:
        """Return the axis orders to try: every order of up to 4 axes, else the original order and orders by stride.

        More than 4 axes have too many orders. The input and each output contribute the order by their falling strides.
        """
        axes = list(range(len(self.sizes)))
        if len(axes) <= 4:
            return [list(order) for order in permutations(axes)]
        layouts = (self.input_strides, *self.output_strides)
        return [axes, *(sorted(axes, key=strides.__getitem__, reverse=True) for strides in layouts)]

    def _coalesce(self) -> StridedCopy:
        """Merge neighbouring axes that are contiguous in the input and in every output."""
        contiguous = [self._is_contiguous(axis) for axis in range(len(self.sizes) - 1)]
        merged = [coalesce(self.sizes, ranges, contiguous) for ranges in self.selected]
        # Only a SPLIT has several outputs. They select all of every axis but one, so the same axes merge for each.
        sizes, _, innermost = merged[0]
        # groups[i]: the original axes that make up merged axis i, up to innermost[i].
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
            self.is_packed,
        )

    def _is_contiguous(self, axis: int) -> bool:
        """Whether the stride of `axis` spans the whole next axis, in the input and in every output."""
        inner = axis + 1
        if not self._continues_input(axis):
            return False
        for counts, strides in zip(self.counts, self.output_strides, strict=True):
            outer = axis
            while counts[outer] == 1 and outer and self._continues_input(outer - 1):
                # An axis with one selected index is merged with its outer axis, so compare with the next longer axis.
                outer -= 1
            if counts[inner] > 1 and counts[outer] > 1 and strides[outer] != counts[inner] * strides[inner]:
                return False
        return True

    def _continues_input(self, axis: int) -> bool:
        """Whether the input's stride of `axis` spans the whole next axis, and the outputs do not tile the next axis."""
        inner = axis + 1
        return inner != self.split_axis and self.input_strides[axis] == self.sizes[inner] * self.input_strides[inner]

    def _split_elements(self, spread: int) -> StridedCopy:
        """Copy each element as `spread` smaller ones, along a new innermost axis."""
        return StridedCopy(
            (*self.sizes, spread),
            (*(stride * spread for stride in self.input_strides), 1),
            tuple((*ranges, range(spread)) for ranges in self.selected),
            tuple((*(stride * spread for stride in strides), 1) for strides in self.output_strides),
            self.split_axis,
            self.is_packed,
        )._coalesce()

    def _group_elements(self, group: int) -> StridedCopy | None:
        """Copy `group` elements of the innermost axis as one larger element, or return None if that would be cut.

        The last group of a buffer may be partly padding, like the last byte of a 4-bit tensor.
        """
        if not self.sizes:
            return self
        inner = len(self.sizes) - 1
        size = self.sizes[inner]
        if self.input_strides[inner] != 1 or any(stride % group for stride in self.input_strides[:inner]):
            return None
        selected, output_strides = [], []
        for ranges, strides, counts in zip(self.selected, self.output_strides, self.counts, strict=True):
            run = ranges[inner]
            # A partial last group may only stand at the end of the axis, and only if nothing follows it in the output.
            has_whole_groups = len(run) % group == 0 or (
                run.stop == size and all(count == 1 for count in counts[:inner])
            )
            if run.step != 1 or run.start % group or not has_whole_groups or (len(run) > 1 and strides[inner] != 1):
                return None
            outer_strides = zip(strides[:inner], counts[:inner], strict=True)
            if any(stride % group for stride, count in outer_strides if count > 1):
                return None
            selected.append((*ranges[:inner], range(run.start // group, -(-run.stop // group))))
            output_strides.append((*(stride // group for stride in strides[:inner]), 1))
        return StridedCopy(
            (*self.sizes[:inner], -(-size // group)),
            (*(stride // group for stride in self.input_strides[:inner]), 1),
            tuple(selected),
            tuple(output_strides),
            self.split_axis,
            self.is_packed,
        )


def _align_strides(region: Region, strides: Sequence[int], split_axis: int | None) -> tuple[int, ...]:
    """Return the output's strides by input axis. An axis with one selected index gets 1, because it needs no stride."""
    if split_axis is not None:  # a SPLIT neither adds nor drops axes
        return tuple(strides)
    strides_of_longer = iter([stride for size, stride in zip(region.output_shape, strides, strict=True) if size != 1])
    return tuple(1 if len(selected) == 1 else next(strides_of_longer) for selected in region.ranges)


def _take_innermost_stride(group: range, counts: Sequence[int], strides: Sequence[int]) -> int:
    """Return the output stride of merged axes: that of the innermost one with several selected indices, if any."""
    return next((strides[axis] for axis in reversed(group) if counts[axis] > 1), strides[group[-1]])

"""The masks of a StridedSlice, and how they align its entries with the axes of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sliceport.errors import InvalidSlice

MASK_ATTRIBUTES = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
"""The attributes of a StridedSlice that hold its masks, in the order of the specification."""


class Entry(NamedTuple):
    """One entry of a StridedSlice, with the input axis that it consumes.

    Attributes:
        kind: `slice` slices the axis, `shrink` drops the axis, `new` inserts an axis of size 1 and consumes no axis.
            `keep` is for an axis that no entry names: it falls under the ellipsis, or comes after the last entry.
        position: Position in begin, end, strides and the masks; -1 for `keep`.
        axis: Input axis; -1 for `new`.
    """

    kind: Literal["slice", "shrink", "new", "keep"]
    position: int
    axis: int


@dataclass(frozen=True, slots=True)
class Masks:
    """The five masks of OpenVINO StridedSlice-1, one bit per entry of `begin` (not per axis).

    A mask may be shorter than `begin` (missing bits are 0) or longer (further bits are ignored), as the specification
    says. Precedence at one entry: ellipsis, then new axis, then shrink, then an ordinary slice.

    Attributes:
        begin: 1 where `begin` is ignored: the slice starts at the first element, or if it is backward, at the last one.
        end: 1 where `end` is ignored: the slice goes up to the last element, or if it is backward, to element 0.
        new_axis: 1 where a new axis of size 1 is inserted.
        shrink_axis: 1 where only element `begin` is taken and the axis is dropped; `end`, the stride and the begin and
            end masks are ignored there.
        ellipsis: 1 at the one entry that stands for all axes that no other entry names.
    """

    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    new_axis: tuple[int, ...] = ()
    shrink_axis: tuple[int, ...] = ()
    ellipsis: tuple[int, ...] = ()

    @classmethod
    def of(cls, attributes: Mapping[str, Sequence[int] | None]) -> Masks:
        """Read the masks from the attributes of a node; a missing mask has no bits.

        >>> Masks.of({"shrink_axis_mask": [0, 1], "name": "crop"})
        Masks(begin=(), end=(), new_axis=(), shrink_axis=(0, 1), ellipsis=())
        """
        return cls(*[tuple(map(int, attributes.get(name) or ())) for name in MASK_ATTRIBUTES])

    @property
    def attributes(self) -> dict[str, tuple[int, ...]]:
        """The masks by attribute name (`begin_mask`, ...)."""
        masks = (self.begin, self.end, self.new_axis, self.shrink_axis, self.ellipsis)
        return dict(zip(MASK_ATTRIBUTES, masks, strict=True))

    def align(self, count: int) -> Masks:
        """Return masks of `count` bits each. Longer masks are cut, and shorter masks are padded with 0.

        >>> Masks(begin=(1,), end=(0, 0, 1)).align(2)
        Masks(begin=(1, 0), end=(0, 0), new_axis=(0, 0), shrink_axis=(0, 0), ellipsis=(0, 0))
        """
        return Masks(*[(*mask, *(0,) * count)[:count] for mask in self.attributes.values()])

    def check(self) -> None:
        """Check that the masks hold bits.

        Raises:
            InvalidSlice: A mask holds something other than 0 and 1.
        """
        for name, mask in self.attributes.items():
            if any(bit not in (0, 1) for bit in mask):
                raise InvalidSlice(f"{name} must hold only 0 and 1, got {list(mask)}")

    def entries(self, count: int, rank: int) -> list[Entry]:
        """Return the entries of a StridedSlice in output order, each with the axis of the input that it consumes.

        `count` is the length of `begin`, and `rank` is the rank of the input. An axis that no entry names gets an
        entry of the kind `keep`.

        Raises:
            InvalidSlice: A mask holds something other than 0 and 1, there are several ellipses, or the entries name
                more axes than the tensor has.

        >>> Masks(ellipsis=(1,), shrink_axis=(0, 1)).entries(2, 2)
        [Entry(kind='keep', position=-1, axis=0), Entry(kind='shrink', position=1, axis=1)]
        """
        self.check()
        masks = self.align(count)
        if sum(masks.ellipsis) > 1:
            raise InvalidSlice(f"at most one ellipsis is allowed, got ellipsis_mask={list(self.ellipsis)}")
        named_axes = sum(not (ellipsis or new) for ellipsis, new in zip(masks.ellipsis, masks.new_axis, strict=True))
        if named_axes > rank:
            raise InvalidSlice(f"{named_axes} entries name an axis, but the tensor has rank {rank}")
        aligned: list[Entry] = []
        axis = 0
        for i in range(count):
            if masks.ellipsis[i]:
                after_ellipsis = axis + (rank - named_axes)  # one `keep` for each axis that no entry names
                aligned += [Entry("keep", -1, hidden) for hidden in range(axis, after_ellipsis)]
                axis = after_ellipsis
            elif masks.new_axis[i]:
                aligned.append(Entry("new", i, -1))
            else:
                aligned.append(Entry("shrink" if masks.shrink_axis[i] else "slice", i, axis))
                axis += 1
        return aligned + [Entry("keep", -1, trailing) for trailing in range(axis, rank)]

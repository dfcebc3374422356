"""`check` refuses what `resolve` refuses, in the same words, and needs no sizes for it; masks by their attributes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX, Entry, Masks, SliceSpec, StridedSliceSpec
from sliceport.slicing.masks import MASK_ATTRIBUTES


def message(work: Callable[..., object], *arguments: object) -> str | None:
    """Return the message of a refusal, if any."""
    try:
        work(*arguments)
    except InvalidSlice as error:
        return str(error)
    return None


def slice_specs() -> Iterator[tuple[int, SliceSpec]]:
    for rank, count in itertools.product(range(3), range(3)):
        for axes in [None, (0, 1), *itertools.product(range(-3, 3), repeat=count)]:
            for steps in [None, (1,) * count, (0,) * count, (1, 0)]:
                for ends in range(3):
                    yield rank, SliceSpec((0,) * count, (1,) * ends, axes, steps)


def test_slices_are_checked_by_rank_alone() -> None:
    refused = set()
    for rank, spec in slice_specs():
        found = message(spec.check, rank)
        assert found == message(spec.resolve, (5,) * rank) == message(spec.by_axis, rank)
        refused.add("" if found is None else found.split(" ")[0])
    assert {"", "data", "ends", "axes", "steps", "axis", "the"} <= refused


@given(st.data(), strategies.shapes(max_rank=3, max_size=3, min_rank=0))
def test_strided_slices_are_checked_by_sizes(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec = data.draw(strategies.strided_slice_specs(len(shape)))
    assert message(spec.check, shape) == message(spec.resolve, shape)
    if message(spec.check, shape) is None:
        assert message(spec.check, [None] * len(shape)) is None


def test_a_shrunk_index_is_checked_as_far_as_sizes_are_known() -> None:
    spec = StridedSliceSpec((1, -4), (0, 0), masks=Masks(shrink_axis=(1, 1)))
    spec.check((2, 4))
    spec.check((None, None))
    with pytest.raises(InvalidSlice, match="entry 1 shrinks axis 1 to index -4, but the axis has 3 elements"):
        spec.check((None, 3))
    with pytest.raises(InvalidSlice, match=f"entry 0 shrinks axis 0 to index {INT64_MAX}, but no axis is that long"):
        StridedSliceSpec((INT64_MAX,), (0,), masks=Masks(shrink_axis=(1,))).check((None,))


def test_bounds_leave_out_what_masks_ignore() -> None:
    spec = StridedSliceSpec((1, 2, 3), (4, 5, 6), (-1, 2, -3), Masks(begin=(0, 1), end=(1,)))
    assert [spec.bounds(i) for i in range(3)] == [(1, None, -1), (None, 5, 2), (3, 6, -3)]
    assert StridedSliceSpec((7,), (8,)).bounds(0) == (7, 8, 1)


def test_masks_come_from_attributes_and_go_back() -> None:
    given_ = {name: (i % 2, 1, i // 2 % 2)[: 1 + i % 3] for i, name in enumerate(MASK_ATTRIBUTES)}
    assert Masks.of(given_).attributes == given_
    assert Masks.of({"end_mask": None, "other": (5,)}) == Masks()
    assert Masks.of({"ellipsis_mask": [0, 1]}) == Masks(ellipsis=(0, 1))


def test_masks_align_with_the_entries() -> None:
    masks = Masks((1,), (), (0, 1, 1), (1, 0), (0, 0, 1))
    assert masks.align(2) == Masks((1, 0), (0, 0), (0, 1), (1, 0), (0, 0))
    assert masks.align(0) == Masks()
    assert masks.entries(2, 3) == [
        Entry("shrink", 0, 0),
        Entry("new", 1, -1),
        Entry("keep", -1, 1),
        Entry("keep", -1, 2),
    ]


@pytest.mark.parametrize("name", MASK_ATTRIBUTES)
@pytest.mark.parametrize("bit", [-1, 2])
def test_masks_hold_bits_also_beyond_the_entries(name: str, bit: int) -> None:
    with pytest.raises(InvalidSlice, match=rf"{name} must hold only 0 and 1, got \[0, {bit}\]"):
        Masks.of({name: (0, bit)}).check()
    with pytest.raises(InvalidSlice, match=name):
        Masks.of({name: (0, bit)}).entries(1, 4)

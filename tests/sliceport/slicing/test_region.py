"""Regions: equality, composition, identity, coalescing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from slicing_cases import every_region, select

from sliceport.errors import InvalidSlice
from sliceport.slicing import Masks, Region, StridedSliceSpec


class TestEquality:
    @pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 3), (3, 1, 2)])
    def test_regions_are_equal_exactly_when_every_output_index_selects_the_same_element(
        self, shape: tuple[int, ...]
    ) -> None:
        data = np.arange(np.prod(shape)).reshape(shape)
        seen: dict[tuple[Any, ...], Region] = {}
        for region in every_region(shape):
            key = (region.output_shape, tuple(select(data, region).reshape(-1).tolist()))
            if key in seen:
                assert seen[key] == region
                assert hash(seen[key]) == hash(region)
            assert all(region != other for other_key, other in seen.items() if other_key != key)
            seen[key] = region

    def test_new_and_dropped_axes_are_the_same_as_kept_ones_where_they_select_the_same(self) -> None:
        kept = StridedSliceSpec((1,), (2,)).resolve((2, 3))
        swapped = StridedSliceSpec((1, 0), (2, 0), masks=Masks(new_axis=(0, 1), shrink_axis=(1, 0))).resolve((2, 3))
        assert kept == swapped

    def test_shapes_tell_regions_of_the_same_elements_apart(self) -> None:
        assert Region((1, 3), (range(1), range(3)), (3,)) != Region((1, 3), (range(1), range(3)), (1, 3))

    def test_empty_regions_of_one_shape_are_equal(self) -> None:
        assert Region.of((4, 4), (range(0), range(2))) == Region.of((4, 4), (range(0), range(2, 4)))
        assert Region.of((4, 4), (range(0), range(2))) != Region.of((4, 4), (range(0), range(3)))


class TestComposition:
    def test_composition_selects_the_same_for_every_pair_on_two_axes(self) -> None:
        data = np.arange(6).reshape(2, 3)
        for first in every_region((2, 3)):
            for second in every_region(first.output_shape):
                joint = select(data, first.then(second))
                assert joint.shape == second.output_shape
                assert np.array_equal(joint, select(select(data, first), second))

    def test_shapes_must_fit(self) -> None:
        with pytest.raises(InvalidSlice, match=r"the following region must have input shape \(2,\), got \(3,\)"):
            Region.of((4,), (range(2),)).then(Region.whole((3,)))


class TestPredicates:
    def test_predicates_hold_for_every_small_region(self) -> None:
        for region in every_region((2, 2)):
            data = np.arange(4).reshape(2, 2)
            same = region.output_shape == (2, 2) and np.array_equal(select(data, region), data)
            assert region.is_identity == same
            assert region.is_empty == (region.size == 0)
        reshaped = Region((1, 3), (range(1), range(3)), (3,))
        assert reshaped.selects_all
        assert not reshaped.is_identity

    def test_an_empty_tensor_is_its_own_identity(self) -> None:
        assert Region.whole((2, 0)).is_identity
        assert not Region.of((2, 0), (range(1), range(0))).is_identity


class TestRules:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (((2, 3), (range(2),), (2,)), "2 input axes need one range each, got 1 ranges"),
            (((2,), (range(3),), (3,)), r"range\(0, 3\) is not within an axis of 2 elements"),
            (((2,), (range(1, -2, -1),), (3,)), "is not within an axis of 2 elements"),
            (((4,), (range(-1, 2),), (3,)), "is not within an axis of 4 elements"),
            (((4,), (range(2, 5),), (3,)), "is not within an axis of 4 elements"),
            (((4,), (range(4, 1, -1),), (3,)), "is not within an axis of 4 elements"),
            (((4,), (range(-4, -1),), (3,)), "is not within an axis of 4 elements"),
            (((2,), (range(2),), (3,)), r"ranges of lengths \[2\] do not fit the output shape \(3,\)"),
            (((2, 3), (range(2), range(3)), (3, 2)), "do not fit the output shape"),
            (((2,), (range(0),), (1,)), "select nothing, but the output shape is"),
        ],
    )
    def test_each_broken_rule_has_its_message(self, arguments: tuple[Any, ...], message: str) -> None:
        with pytest.raises(InvalidSlice, match=message):
            Region(*arguments)


def test_empty_regions_have_one_form() -> None:
    """Equal means the same selection, so what an empty region keeps of other axes does not count."""
    first = Region.of((4, 3), (range(4), range(0, 3, 2)))
    assert first.then(Region.of((4, 2), (range(0), range(2)))) == Region((4, 3), (range(0), range(0)), (0, 2))
    assert Region((4, 3), (range(4), range(3)), (0, 3)) == Region((4, 3), (range(0), range(0)), (0, 3))
    empty = first.then(Region.of((4, 2), (range(0), range(2))))
    assert empty.coalesce() is empty

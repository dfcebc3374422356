"""Covering, exhaustively at small size: every choice of two and three regions, against a count of their elements."""

from __future__ import annotations

import itertools

import pytest
from slicing_cases import every_region

from sliceport.slicing import Masks, Region, StridedSliceSpec, find_tiled_axis


def tiled_axis(regions: tuple[Region, ...]) -> tuple[int, list[int]] | None:
    """Return the axis that the regions tile in some order, and that order."""
    shape = regions[0].input_shape
    for axis, size in enumerate(shape):
        for order in itertools.permutations(range(len(regions))):
            walked = [i for number in order for i in regions[number].ranges[axis]]
            others = [kept for region in regions for a, kept in enumerate(region.ranges) if a != axis]
            whole = [list(range(n)) for _ in regions for a, n in enumerate(shape) if a != axis]
            if walked == list(range(size)) and list(map(list, others)) == whole and all(r.size for r in regions):
                return axis, list(order)
    return None


@pytest.mark.parametrize(
    ("shape", "count"), [((4,), 2), ((3,), 3), ((3, 2), 2), ((1, 3), 3), ((1, 3), 2), ((2, 1, 2), 2)]
)
def test_every_choice_of_regions_tiles_as_counted(shape: tuple[int, ...], count: int) -> None:
    found = 0
    for regions in itertools.product(every_region(shape), repeat=count):
        expected = tiled_axis(regions)
        assert find_tiled_axis(regions) == expected
        found += expected is not None
    assert found > 0


@pytest.mark.parametrize(
    "regions", [[], [Region.whole((4,))], [Region.of((4,), (range(2),)), Region.of((5,), (range(2, 5),))]]
)
def test_too_few_regions_and_those_of_different_shapes_do_not_tile(regions: list[Region]) -> None:
    assert find_tiled_axis(regions) is None


def test_every_partition_of_an_axis_tiles_it_in_every_order() -> None:
    size = 5
    for bits in itertools.product((False, True), repeat=size - 1):
        cuts = [0, *(i + 1 for i, cut in enumerate(bits) if cut), size]
        runs = [range(start, stop) for start, stop in itertools.pairwise(cuts)]
        for order in itertools.permutations(range(len(runs))):
            regions = [Region.of((2, size, 3), (range(2), runs[i], range(3))) for i in order]
            found = find_tiled_axis(regions)
            assert (found is not None) == (len(runs) > 1)
            if found is not None:
                assert found[0] == 1
                assert [order[i] for i in found[1]] == list(range(len(runs)))


def test_parts_that_drop_the_axis_do_not_tile_it() -> None:
    parts = [StridedSliceSpec((i,), (0,), masks=Masks(shrink_axis=(1,))).resolve((2, 3)) for i in range(2)]
    assert [part.output_shape for part in parts] == [(3,), (3,)]
    assert find_tiled_axis(parts) is None

"""Coalescing leaves as few axes as there can be.

What a region selects, as positions in its packed buffer, is a list of integers. The fewest axes follow from the number
of nested arithmetic progressions that this list is made of.
"""

from __future__ import annotations

import itertools
from math import prod

import pytest
import selecting
from amounts import amount
from hypothesis import assume, given, settings
from slicing_cases import small_ranges

from sliceport.directml.lower import lower_nodes
from sliceport.slicing import Region
from sliceport.slicing.node import Cut, Resolved

Positions = tuple[int, ...]


def positions(shape: Positions, indices: tuple[range, ...]) -> Positions:
    """Return the positions of the selected elements in the packed buffer, in output order."""
    found = []
    for index in itertools.product(*indices):
        position = 0
        for size, i in zip(shape, index, strict=True):
            position = position * size + i
        found.append(position)
    return tuple(found)


def nested_progressions(flat: Positions) -> int:
    """Count the nested arithmetic progressions of the positions, from the innermost one."""
    count = 0
    while len(flat) > 1:
        run = 2
        while run < len(flat) and flat[run] - flat[run - 1] == flat[1] - flat[0]:
            run += 1
        assert len(flat) % run == 0
        flat = flat[::run]
        count += 1
    return count


def fewest_axes(region: Region) -> int:
    """Return one element of many still needs an axis to lie on; a buffer of one element needs none."""
    return max(nested_progressions(positions(region.input_shape, region.ranges)), int(prod(region.input_shape) > 1))


def regions(shape: Positions) -> list[Region]:
    """Return every region of a shape that selects something."""
    return [Region.of(shape, kept) for kept in itertools.product(*(small_ranges(size)[1:] for size in shape))]


@pytest.mark.parametrize(
    "shape", [(1, 1), (6,), (4, 5), (5, 4), (1, 6), (3, 1, 4), (3, 3, 3), (2, 3, 4), (2, 2, 2, 2)], ids=str
)
def test_small_regions_coalesce_to_the_fewest_axes(shape: tuple[int, ...]) -> None:
    for region in regions(shape):
        merged = region.coalesce()
        assert positions(merged.input_shape, merged.ranges) == positions(shape, region.ranges)
        assert len(merged.input_shape) == fewest_axes(region)


@settings(max_examples=amount(300))
@given(selecting.regions())
def test_operators_have_the_fewest_dimensions(region: Region) -> None:
    assume(not region.selects_all)
    node = Resolved("n", "Slice", "", 13, (), "x", "FLOAT", ("y",), cuts=(Cut("y", region, True),))
    (lowered,) = lower_nodes([node]).nodes
    (call,) = lowered.calls
    assert call.operator.input_tensor.rank == fewest_axes(region)

"""Slices that together tile an axis."""

from __future__ import annotations

from sliceport.directml.siblings import group_siblings
from sliceport.slicing import Region
from sliceport.slicing.node import Cut, Resolved


def slice_of(run: range, axis: int = 0, value: str = "x") -> Resolved:
    ranges = [range(6), range(6)]
    ranges[axis] = run
    cut = Cut(f"{value}{axis}{run}", Region.of((6, 6), tuple(ranges)), used=True)
    return Resolved("n", "Slice", "", 13, (), value, "FLOAT", (cut.output,), cuts=(cut,))


def test_each_belongs_to_one_group() -> None:
    runs = [range(2), range(3, 6), range(4), range(2, 6), range(4, 6), range(3)]
    nodes = [slice_of(run) for run in runs]
    groups = group_siblings(nodes)
    assert sorted(groups) == [0, 1, 2, 3, 4, 5]
    assert all(groups[i] is groups[groups[i][0]] for i in groups)
    assert {tuple(groups[i]) for i in groups} == {(0, 3), (2, 4), (5, 1)}


def test_slices_of_other_axes_and_values_are_not_siblings() -> None:
    assert not group_siblings([slice_of(range(2)), slice_of(range(2, 6), 1), slice_of(range(2, 6), value="y")])


def test_all_pairs_of_one_axis_are_found() -> None:
    nodes = [slice_of(run, value=value) for value in "xy" for n in range(1, 6) for run in (range(n), range(n, 6))]
    assert len(group_siblings(nodes)) == len(nodes)

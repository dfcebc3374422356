"""Up to six axes, in every spelling: each slice selects something, and what is known before it is written."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import oracle
import selecting
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st
from slicing_cases import distinct

from sliceport.slicing import Region


def chosen(data: np.ndarray, indices: Sequence[Sequence[int]], shape: tuple[int, ...]) -> list[Any]:
    """Return the elements on the grid of the indices of each axis, one by one, in the shape they come out in."""
    elements = [int(data[index]) for index in itertools.product(*indices)]
    nested: list[Any] = np.array(elements).reshape(shape).tolist()
    return nested


@settings(max_examples=amount(200))
@given(st.data(), selecting.shapes())
def test_slices_select_what_was_chosen(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec, indices = data.draw(selecting.slices(shape))
    region = spec.resolve(shape)
    assert region == Region.of(shape, indices)
    assert list(map(list, region.ranges)) == list(map(list, indices))
    assert region.output_shape == tuple(map(len, indices))
    expected = oracle.onnx_slice(distinct(*shape), spec.starts, spec.ends, spec.axes, spec.steps)
    assert chosen(distinct(*shape), region.ranges, region.output_shape) == expected.tolist()


@settings(max_examples=amount(200))
@given(st.data(), selecting.shapes())
def test_splits_select_what_was_chosen(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec, parts = data.draw(selecting.splits(shape))
    regions = spec.resolve(shape)
    assert [region.output_shape for region in regions] == [tuple(map(len, part)) for part in parts]
    for region, part in zip(regions, parts, strict=True):
        assert region == Region.of(shape, part)
    expected = oracle.onnx_split(distinct(*shape), spec.axis, spec.sizes)
    assert [chosen(distinct(*shape), r.ranges, r.output_shape) for r in regions] == [part.tolist() for part in expected]


@settings(max_examples=amount(300))
@given(st.data(), selecting.shapes(min_rank=0))
def test_strided_slices_select_what_was_chosen(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec, indices, output_shape = data.draw(selecting.strided_slices(shape))
    region = spec.resolve(shape)
    assert region == Region(shape, indices, output_shape)
    assert list(map(list, region.ranges)) == list(map(list, indices))
    expected = oracle.strided_slice(distinct(*shape), spec.begin, spec.end, spec.strides, **spec.masks.attributes)
    assert expected.shape == region.output_shape == output_shape
    assert chosen(distinct(*shape), region.ranges, region.output_shape) == expected.tolist()


@settings(max_examples=amount(200))
@given(st.data(), selecting.shapes(min_rank=0))
def test_composition_goes_through_new_and_dropped_axes(data: st.DataObject, shape: tuple[int, ...]) -> None:
    first = data.draw(selecting.strided_slices(shape))[0].resolve(shape)
    second = data.draw(selecting.strided_slices(first.output_shape))[0].resolve(first.output_shape)
    between = np.array(chosen(distinct(*shape), first.ranges, first.output_shape)).reshape(first.output_shape)
    expected = chosen(between, second.ranges, second.output_shape)
    joint = first.then(second)
    assert joint.output_shape == second.output_shape
    assert chosen(distinct(*shape), joint.ranges, joint.output_shape) == expected

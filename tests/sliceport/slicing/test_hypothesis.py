"""The hypothesis twins of the exhaustive tests: more axes, larger sizes, far bounds, any masks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleError, onnx_slice, strided_slice

from sliceport.errors import InvalidSlice
from sliceport.slicing import Region, as_slice, find_tiled_axis, merge, resolve_axis


def distinct(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def select(data: np.ndarray, region: Region) -> np.ndarray:
    return data[tuple(map(as_slice, region.ranges))].reshape(region.output_shape)


@given(st.data(), strategies.shapes(max_rank=5, max_size=4))
def test_slice_equals_the_oracle(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec = data.draw(strategies.slice_specs(shape))
    expected = onnx_slice(distinct(shape), spec.starts, spec.ends, spec.axes, spec.steps)
    got = select(distinct(shape), spec.resolve(shape))
    assert expected.shape == got.shape
    assert np.array_equal(expected, got)


@settings(max_examples=400)
@given(st.data(), strategies.shapes(max_rank=4, max_size=3, min_rank=0))
def test_strided_slice_equals_the_oracle(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec = data.draw(strategies.strided_slice_specs(len(shape)))
    try:
        expected = strided_slice(distinct(shape), spec.begin, spec.end, spec.strides, **spec.masks.attributes)
    except OracleError:
        with pytest.raises(InvalidSlice):
            spec.resolve(shape)
        return
    got = select(distinct(shape), spec.resolve(shape))
    assert expected.shape == got.shape
    assert np.array_equal(expected, got)


@given(st.data(), strategies.regions(max_rank=4))
def test_composition_equals_selecting_twice(data: st.DataObject, first: Region) -> None:
    second = data.draw(strategies.regions(first.output_shape))
    joint = first.then(second)
    buffer = distinct(first.input_shape)
    assert joint.output_shape == second.output_shape
    assert np.array_equal(select(buffer, joint), select(select(buffer, first), second))


@given(st.data(), strategies.regions(max_rank=3, max_size=9))
def test_composition_is_associative(data: st.DataObject, first: Region) -> None:
    second = data.draw(strategies.regions(first.output_shape))
    third = data.draw(strategies.regions(second.output_shape))
    assert first.then(second).then(third) == first.then(second.then(third))


@given(strategies.regions())
def test_coalesced_region_selects_the_same(region: Region) -> None:
    merged = region.coalesce()
    buffer = distinct(region.input_shape)
    got = select(buffer.reshape(merged.input_shape), merged)
    assert np.array_equal(got.reshape(-1), select(buffer, region).reshape(-1))
    if not region.is_empty:
        assert all(size > 1 for size in merged.input_shape)
        neighbours = zip(merged.ranges, merged.ranges[1:], merged.input_shape[1:], strict=False)
        assert all(merge(outer, inner, size) is None for outer, inner, size in neighbours)


@given(strategies.shapes(max_rank=3, min_size=1), st.data())
def test_any_partition_of_an_axis_covers_it(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, shape[axis] - 1)), max_size=4)))
    cuts = [0, *(c for c in cuts if c < shape[axis]), shape[axis]]
    parts = []
    for start, stop in itertools.pairwise(cuts):
        ranges = [range(start, stop) if a == axis else range(n) for a, n in enumerate(shape)]
        parts.append(Region.of(shape, ranges))
    order = data.draw(st.permutations(range(len(parts))))
    found = find_tiled_axis([parts[i] for i in order])
    if len(parts) < 2:
        assert found is None
    else:
        assert found is not None
        assert (found[0], [order[i] for i in found[1]]) == (axis, list(range(len(parts))))


FAR = st.integers(-(2**80), 2**80)


@given(st.integers(0, 2**62), FAR, FAR, FAR.filter(bool))
def test_sizes_and_bounds_up_to_and_beyond_64_bits(size: int, start: int, stop: int, step: int) -> None:
    """The ends and the count by the specification's clamping, worked out without walking the axis."""
    kept = resolve_axis(start, stop, step, size)
    high = size if step > 0 else size - 1
    first = max(min(start + size if start < 0 else start, high), 0)
    last = max(min(stop + size if stop < 0 else stop, high), 0 if step > 0 else -1)
    span = last - first if step > 0 else first - last
    count = max(0, -(-span // abs(step))) if size else 0
    assert len(kept) == count
    if count:
        assert (kept[0], kept[-1]) == (first, first + (count - 1) * step)


def test_far_sizes_are_exact() -> None:
    assert resolve_axis(-1, None, -1, 2**62) == range(2**62 - 1, -1, -1)

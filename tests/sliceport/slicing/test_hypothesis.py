"""The hypothesis twins of the exhaustive tests: more axes, larger sizes, far bounds, any masks."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleError, onnx_slice, strided_slice
from slicing_cases import distinct, select

from sliceport.errors import InvalidSlice
from sliceport.slicing import resolve_axis


@given(st.data(), strategies.shapes(max_rank=5, max_size=4))
def test_any_slice_selects_what_the_oracle_selects(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec = data.draw(strategies.slice_specs(shape))
    expected = onnx_slice(distinct(*shape), spec.starts, spec.ends, spec.axes, spec.steps)
    got = select(distinct(*shape), spec.resolve(shape))
    assert expected.shape == got.shape
    assert np.array_equal(expected, got)


@settings(max_examples=amount(400))
@given(st.data(), strategies.shapes(max_rank=4, max_size=3, min_rank=0))
def test_any_strided_slice_selects_or_is_refused_as_by_the_oracle(data: st.DataObject, shape: tuple[int, ...]) -> None:
    spec = data.draw(strategies.strided_slice_specs(len(shape)))
    try:
        expected = strided_slice(distinct(*shape), spec.begin, spec.end, spec.strides, **spec.masks.attributes)
    except OracleError:
        with pytest.raises(InvalidSlice):
            spec.resolve(shape)
        return
    got = select(distinct(*shape), spec.resolve(shape))
    assert expected.shape == got.shape
    assert np.array_equal(expected, got)


FAR = st.integers(-(2**80), 2**80)


@given(st.integers(0, 2**62), FAR, FAR, FAR.filter(bool))
def test_sizes_and_bounds_beyond_64_bits_are_clamped(size: int, start: int, stop: int, step: int) -> None:
    """Check that the ends and the count by the specification's clamping, worked out without walking the axis."""
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

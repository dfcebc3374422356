"""Hypothesis strategies for slicing; hypothesis' own `slices` leaves out negative and far bounds."""

from __future__ import annotations

from hypothesis import strategies as st

from sliceport.slicing import INT64_MAX, INT64_MIN, Masks, SliceSpec, StridedSliceSpec

FAR = (INT64_MAX, INT64_MIN, INT64_MIN + 1, 2**31 - 1, -(2**31), 100, -100)


def shapes(
    max_rank: int = 6, max_size: int = 6, min_rank: int = 1, min_size: int = 0
) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(min_size, max_size), min_size=min_rank, max_size=max_rank).map(tuple)


def bounds(size: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(-2 * size - 2, 2 * size + 2), st.sampled_from(FAR))


def steps(size: int) -> st.SearchStrategy[int]:
    near = st.integers(-size - 2, size + 2).filter(bool)
    return st.one_of(st.sampled_from((1, -1, 1, 2)), near, st.sampled_from(FAR))


@st.composite
def slice_specs(draw: st.DrawFn, shape: tuple[int, ...]) -> SliceSpec:
    rank = len(shape)
    named = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank))
    axes = tuple(draw(st.sampled_from((axis, axis - rank))) for axis in named)
    return SliceSpec(
        tuple(draw(bounds(shape[axis])) for axis in named),
        tuple(draw(bounds(shape[axis])) for axis in named),
        axes,
        tuple(draw(steps(shape[axis])) for axis in named),
    )


@st.composite
def strided_slice_specs(draw: st.DrawFn, rank: int) -> StridedSliceSpec:
    count = draw(st.integers(0, rank + 2))
    mask = st.lists(st.integers(0, 1), max_size=count + 1).map(tuple)
    numbers = st.one_of(st.integers(-8, 8), st.sampled_from(FAR))
    ellipsis = draw(st.one_of(st.none(), st.integers(0, count)))
    return StridedSliceSpec(
        tuple(draw(st.lists(numbers, min_size=count, max_size=count))),
        tuple(draw(st.lists(numbers, min_size=count, max_size=count))),
        draw(st.one_of(st.none(), st.lists(numbers, min_size=count, max_size=count).map(tuple))),
        Masks(draw(mask), draw(mask), draw(mask), draw(mask), () if ellipsis is None else (0,) * ellipsis + (1,)),
    )

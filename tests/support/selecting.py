"""Hypothesis strategies for slices that select something, in every spelling that their standards allow.

Bounds drawn at random nearly always leave some axis empty once there are several axes. Here the selection comes first
and one of the ways to write it follows, so what is expected is known without anyone's arithmetic.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from hypothesis import strategies as st

from sliceport.slicing import INT64_MAX, INT64_MIN, Masks, Region, SliceSpec, SplitSpec, StridedSliceSpec

ABOVE = (INT64_MAX, INT64_MAX - 1, 2**31 - 1, 2**31, 1000)
BELOW = (INT64_MIN, INT64_MIN + 1, -(2**31), -(2**31) - 1, -1000)
ANYTHING = st.one_of(st.integers(-9, 9), st.sampled_from(ABOVE + BELOW))


def shapes(max_rank: int = 6, most: int = 300, min_rank: int = 1) -> st.SearchStrategy[tuple[int, ...]]:
    """Return shapes of 1 to `most` elements."""
    sizes = st.lists(st.sampled_from((2, 3, 1, 4, 5, 7)), min_size=min_rank, max_size=max_rank).map(tuple)
    return sizes.filter(lambda shape: prod(shape) <= most)


@st.composite
def selections(draw: st.DrawFn, size: int) -> range:
    """Return some elements of an axis; all of them, in either direction, more often than others."""
    whole = draw(st.sampled_from((range(size), range(size - 1, -1, -1), None, None)))
    if whole is not None:
        return whole
    first = draw(st.integers(0, size - 1))
    step = draw(st.integers(-size, size).filter(bool))
    most = (size - 1 - first) // step + 1 if step > 0 else first // -step + 1
    return range(first, first + draw(st.integers(1, most)) * step, step)


@st.composite
def regions(draw: st.DrawFn, shape: tuple[int, ...] | None = None, max_rank: int = 6) -> Region:
    shape = draw(shapes(max_rank)) if shape is None else shape
    return Region.of(shape, [draw(selections(size)) for size in shape])


@st.composite
def spellings(draw: st.DrawFn, kept: range, size: int) -> tuple[int, int, int]:
    """Return one way to write a selection of an axis as first index, end and step."""
    first, last, step = kept[0], kept[-1], kept.step
    if len(kept) == 1:  # then any step does
        step = draw(st.one_of(st.integers(-size, size).filter(bool), st.sampled_from(ABOVE + BELOW)))
    starts = [first, first - size]
    if first == 0:
        starts += [*BELOW, -size - 1]  # clamped to the first element, backward too
    if step < 0 and first == size - 1:
        starts += [*ABOVE, size]
    if step > 0:
        ends = list(range(last + 1, min(last + step, size - 1) + 1))
        beyond = [*ABOVE, size] if last + step >= size else []
    else:
        ends = list(range(max(last + step, 0), last))
        beyond = [*BELOW, -size - 1] if last + step < 0 else []
    ends += [end - size for end in ends]
    return draw(st.sampled_from(starts)), draw(st.sampled_from(ends + beyond)), step


@st.composite
def slices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[SliceSpec, tuple[range, ...]]:
    """Return a Slice of some axes in any order, and what it keeps of every axis."""
    named = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=len(shape)))
    indices = [range(size) for size in shape]
    bounds = []
    for axis in named:
        indices[axis] = draw(selections(shape[axis]))
        bounds.append(draw(spellings(indices[axis], shape[axis])))
    starts, ends, steps = tuple(zip(*bounds, strict=True)) or ((), (), ())
    axes = tuple(draw(st.sampled_from((axis, axis - len(shape)))) for axis in named)
    without_axes = named == list(range(len(named))) and draw(st.booleans())
    without_steps = all(step == 1 for step in steps) and draw(st.booleans())
    spec = SliceSpec(starts, ends, None if without_axes else axes, None if without_steps else steps)
    return spec, tuple(indices)


@st.composite
def splits(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[SplitSpec, list[tuple[range, ...]]]:
    """Return a Split, and what each part keeps of every axis."""
    axis = draw(st.integers(0, len(shape) - 1))
    cuts = [0, *sorted(draw(st.lists(st.integers(0, shape[axis]), max_size=4))), shape[axis]]
    parts = [range(start, stop) for start, stop in pairwise(cuts)]
    spec = SplitSpec(draw(st.sampled_from((axis, axis - len(shape)))), tuple(map(len, parts)))
    return spec, [tuple(part if a == axis else range(n) for a, n in enumerate(shape)) for part in parts]


class _StridedSlice:
    """A StridedSlice in the making: its entries, what they keep, and the shape that comes out."""

    def __init__(self, draw: st.DrawFn, shape: tuple[int, ...]) -> None:
        self.draw = draw
        self.shape = shape
        self.entries: list[tuple[int, int, int, str]] = []  # begin, end, stride and the masks that are set, by letter
        self.indices = [range(size) for size in shape]
        self.output: list[int] = []

    def ignored(self, kind: str, *other_bits: str) -> None:
        """Add an entry whose numbers are ignored, and whose masks are, but for that of its kind."""
        bits = kind + self.draw(st.sampled_from(("", *other_bits)))
        self.entries.append((self.draw(ANYTHING), self.draw(ANYTHING), self.draw(ANYTHING), bits))

    def new_axes(self) -> None:
        for _ in range(self.draw(st.sampled_from((0, 0, 0, 1, 2)))):
            self.ignored("n", "s", "bf")
            self.output.append(1)

    def ellipsis(self, first: int, stop: int) -> None:
        self.ignored("e", "n", "s", "bf")
        self.output += self.shape[first:stop]

    def consume(self, axis: int) -> None:
        size = self.shape[axis]
        if self.draw(st.sampled_from((False, False, True))):
            index = self.draw(st.integers(0, size - 1))
            self.indices[axis] = range(index, index + 1)
            begin = self.draw(st.sampled_from((index, index - size)))
            bits = "s" + self.draw(st.sampled_from(("", "b", "bf")))
            self.entries.append((begin, self.draw(ANYTHING), self.draw(ANYTHING), bits))
            return
        kept = self.indices[axis] = self.draw(selections(size))
        begin, end, step = self.draw(spellings(kept, size))
        bits = ""
        if kept[0] == (0 if step > 0 else size - 1) and self.draw(st.booleans()):
            bits, begin = "b", self.draw(ANYTHING)
        if not 0 <= kept[-1] + step < size and self.draw(st.booleans()):
            bits, end = bits + "f", self.draw(ANYTHING)
        self.entries.append((begin, end, step, bits))
        self.output.append(len(kept))

    def written(self) -> StridedSliceSpec:
        """Return the entries as a spec; some masks lack their trailing zeros, others have bits beyond the entries."""
        masks = []
        for letter in "bfnse":
            bits = [int(letter in entry[3]) for entry in self.entries]
            length = self.draw(st.sampled_from(("full", "short", "long")))
            while length == "short" and bits and not bits[-1]:
                bits.pop()
            if length == "long":
                bits += self.draw(st.lists(st.integers(0, 1), max_size=2))
            masks.append(tuple(bits))
        begin = tuple(entry[0] for entry in self.entries)
        end = tuple(entry[1] for entry in self.entries)
        strides = tuple(entry[2] for entry in self.entries)
        without_strides = all(step == 1 for step in strides) and self.draw(st.booleans())
        return StridedSliceSpec(begin, end, None if without_strides else strides, Masks(*masks))


@st.composite
def strided_slices(
    draw: st.DrawFn, shape: tuple[int, ...]
) -> tuple[StridedSliceSpec, tuple[range, ...], tuple[int, ...]]:
    """Return a StridedSlice that is allowed, what it keeps of every axis, and the shape that comes out."""
    rank = len(shape)
    made = _StridedSlice(draw, shape)
    first, stop = sorted(draw(st.tuples(st.integers(0, rank), st.integers(0, rank))))  # the axes that no entry names
    for axis in range(first):
        made.new_axes()
        made.consume(axis)
    made.new_axes()
    if draw(st.booleans()):
        made.ellipsis(first, stop)
        for axis in range(stop, rank):
            made.new_axes()
            made.consume(axis)
        made.new_axes()
    else:
        made.output += shape[first:]
    return made.written(), tuple(made.indices), tuple(made.output)

"""Specs: exhaustive at small size against the oracle, the mask rules of StridedSlice included."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from oracle import OracleError, onnx_slice, onnx_split, strided_slice
from slicing_cases import distinct, select

from sliceport.errors import InvalidSlice
from sliceport.slicing import INT64_MAX, INT64_MIN, Masks, SliceSpec, SplitSpec, StridedSliceSpec
from sliceport.slicing.masks import MASK_ATTRIBUTES


def assert_same(expected: np.ndarray, got: np.ndarray) -> None:
    assert (expected.shape, expected.dtype) == (got.shape, got.dtype)
    assert expected.tobytes() == got.tobytes()


class TestSlice:
    def test_two_axes_are_sliced_in_any_order_and_spelling(self) -> None:
        data = distinct(3, 4)
        bounds = (-5, -1, 0, 2, INT64_MAX)
        for axes in ((0, 1), (1, 0), (-1, 0), (1, -2)):
            for starts, ends in itertools.product(itertools.product(bounds, repeat=2), repeat=2):
                for steps in ((1, -1), (-2, 1)):
                    region = SliceSpec(starts, ends, axes, steps).resolve(data.shape)
                    assert_same(onnx_slice(data, starts, ends, axes, steps), select(data, region))

    @pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (2, 0, 3)])
    def test_axes_without_elements_are_sliced(self, shape: tuple[int, ...]) -> None:
        data = distinct(*shape)
        for start, end, step in itertools.product((-2, 0, 1, INT64_MIN), (-2, 0, 1, INT64_MAX), (1, -1, 2)):
            region = SliceSpec((start,), (end,), (-1,), (step,)).resolve(shape)
            assert_same(onnx_slice(data, (start,), (end,), (-1,), (step,)), select(data, region))

    def test_no_entries_is_the_identity(self) -> None:
        assert SliceSpec((), (), (), ()).resolve((2, 3)).is_identity
        assert SliceSpec((), ()).resolve((2, 3)).is_identity

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            (SliceSpec((0,), ()), "ends and starts must have the same length"),
            (SliceSpec((0,), (1,), ()), "axes and starts must have the same length"),
            (SliceSpec((0,), (1,), (0,), (1, 1)), "steps and starts must have the same length"),
            (SliceSpec((0,), (1,), (2,)), "axis 2 is out of range for a tensor of rank 2"),
            (SliceSpec((0, 0), (1, 1), (1, -1)), "axis 1 is named twice"),
            (SliceSpec((0,), (1,), (0,), (0,)), "the step of axis 0 is 0"),
            (SliceSpec((0,) * 3, (1,) * 3), "3 starts are more than the tensor's rank 2"),
        ],
    )
    def test_parameters_that_break_the_specification_are_refused(self, spec: SliceSpec, message: str) -> None:
        with pytest.raises(InvalidSlice, match=message):
            spec.resolve((2, 3))
        with pytest.raises((OracleError, IndexError)):
            onnx_slice(distinct(2, 3), spec.starts, spec.ends, spec.axes, spec.steps)


class TestSplit:
    def test_every_split_of_a_small_axis_selects_its_parts(self) -> None:
        for shape in ((4,), (2, 3), (3, 0, 2), (2, 1, 4)):
            data = distinct(*shape)
            for axis in range(-len(shape), len(shape)):
                dim = shape[axis]
                for sizes in itertools.chain.from_iterable(
                    itertools.product(range(dim + 1), repeat=parts) for parts in (1, 2, 3)
                ):
                    if sum(sizes) != dim:
                        with pytest.raises(InvalidSlice, match="sums to"):
                            SplitSpec(axis, sizes).resolve(shape)
                        continue
                    parts = SplitSpec(axis, sizes).resolve(shape)
                    for expected, region in zip(onnx_split(data, axis, sizes), parts, strict=True):
                        assert_same(expected, select(data, region))

    def test_even_parts_have_the_sizes_of_each_version(self) -> None:
        for dim, parts in itertools.product(range(9), range(1, 6)):
            chunk = -(-dim // parts)
            sizes = [max(0, min(chunk, dim - chunk * i)) for i in range(parts)]
            if dim - chunk * (parts - 1) < 0:
                with pytest.raises(InvalidSlice, match="too few"):
                    SplitSpec.evenly(0, (dim,), parts, uneven_last=True)
            else:
                assert list(SplitSpec.evenly(0, (dim,), parts, uneven_last=True).sizes) == sizes
            if dim % parts:
                with pytest.raises(InvalidSlice, match="do not divide into"):
                    SplitSpec.evenly(0, (dim,), parts)
            else:
                assert SplitSpec.evenly(0, (dim,), parts).sizes == (dim // parts,) * parts

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: SplitSpec(2, (1, 1)).resolve((2, 3)), "axis 2 is out of range"),
            (lambda: SplitSpec(0, (3, -1)).resolve((2, 3)), "split sizes must not be negative"),
            (lambda: SplitSpec.with_rest(0, (9,), (-1, 2, -1)).resolve((9,)), "split sizes must not be negative"),
            (lambda: SplitSpec.evenly(0, (2,), 0), "the number of outputs must be at least 1"),
        ],
    )
    def test_parameters_that_break_the_specification_are_refused(
        self, call: Callable[[], object], message: str
    ) -> None:
        with pytest.raises(InvalidSlice, match=message):
            call()


class TestStridedSlice:
    def both(
        self,
        data: npt.NDArray[Any],
        begin: tuple[int, ...],
        end: tuple[int, ...],
        strides: tuple[int, ...] | None,
        **masks: tuple[int, ...],
    ) -> bool:
        """Whether the oracle allows the case; the spec must agree, in the result too."""
        spec = StridedSliceSpec(begin, end, strides, Masks.of(masks))
        try:
            expected = strided_slice(data, begin, end, strides, **masks)
        except OracleError:
            with pytest.raises(InvalidSlice):
                spec.resolve(data.shape)
            return False
        assert_same(expected, select(data, spec.resolve(data.shape)))
        return True

    def test_one_entry_selects_what_the_oracle_selects(self) -> None:
        """Check that bounds two beyond an end are clamped as all farther ones."""
        allowed = 0
        for size in range(5):
            data = distinct(size)
            numbers = (*range(-size - 2, size + 3), INT64_MAX, INT64_MIN)
            for begin, end, stride in itertools.product(numbers, numbers, (1, 2, -1, -3, 0)):
                for bits in itertools.product((0, 1), repeat=5):
                    masks = {name: (bit,) for name, bit in zip(MASK_ATTRIBUTES, bits, strict=True)}
                    allowed += self.both(data, (begin,), (end,), (stride,), **masks)
        assert allowed > 10_000

    @pytest.mark.parametrize("rank", [0, 1, 2, 3])
    @pytest.mark.parametrize("entries", [2, 3])
    def test_every_combination_of_masks_selects_what_the_oracle_selects(self, rank: int, entries: int) -> None:
        """Check that all 2^(5 x entries) combinations, with bounds and strides that differ from entry to entry."""
        data = distinct(*(3, 2, 4)[:rank])
        begin, end, strides = (1, -1, 0)[:entries], (-1, -9, 3)[:entries], (1, -1, 2)[:entries]
        masks = list(itertools.product((0, 1), repeat=entries))
        allowed = 0
        for combination in itertools.product(masks, repeat=5):
            if sum(combination[4]) <= 1:
                allowed += self.both(data, begin, end, strides, **dict(zip(MASK_ATTRIBUTES, combination, strict=True)))
        assert allowed > 0

    def test_four_entries_at_rank_three_select_what_the_oracle_selects(self) -> None:
        data = distinct(3, 2, 4)
        masks = list(itertools.product((0, 1), repeat=4))
        allowed = 0
        for new, shrink, ellipsis in itertools.product(masks, masks, range(-1, 4)):
            allowed += self.both(
                data, (1, -1, 0, -2), (9, -9, 2, 0), (1, -1, 1, -1), new_axis_mask=new, shrink_axis_mask=shrink,
                ellipsis_mask=tuple(int(i == ellipsis) for i in range(4)), begin_mask=(0, 1, 0, 1),
                end_mask=(1, 0, 0, 1),
            )  # fmt: skip
        assert allowed > 100

    def test_a_negative_axis_needs_a_rank(self) -> None:
        spec = SliceSpec((0, 0), (1, 1), axes=(0, -1))
        assert list(spec.by_axis(3)) == [0, 2]
        assert SliceSpec((), ()).by_axis(None) == {}
        assert list(SliceSpec((0, 0), (1, 1), axes=(1, 0)).by_axis(None)) == [1, 0]
        with pytest.raises(InvalidSlice, match=r"negative axes need a known rank, got axes=\[-1\]"):
            SliceSpec((0,), (1,), axes=(-1,)).by_axis(None)

    def test_a_scalar_has_no_axis_to_slice(self) -> None:
        with pytest.raises(InvalidSlice, match="data is a scalar, but slicing needs at least one axis"):
            SliceSpec((), ()).resolve(())

    def test_entries_say_what_each_does_to_which_axis(self) -> None:
        """Check each kind in output order: new axes consume none, an ellipsis and the end keep the other axes."""
        masks = Masks(new_axis=(1, 0, 0, 1), shrink_axis=(0, 1), ellipsis=(0, 0, 1))
        assert StridedSliceSpec((0,) * 5, (1,) * 5, masks=masks).entries(4) == [
            ("new", 0, -1),
            ("shrink", 1, 0),
            ("keep", -1, 1),
            ("keep", -1, 2),
            ("new", 3, -1),
            ("slice", 4, 3),
        ]
        assert StridedSliceSpec((0,), (1,)).entries(3) == [("slice", 0, 0), ("keep", -1, 1), ("keep", -1, 2)]

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            (StridedSliceSpec((0,), (1, 2)), r"begin, end and strides must have the same length, got lengths \[1, 2\]"),
            (StridedSliceSpec((0,), (1,), (1, 1)), r"got lengths \[1, 1, 2\]"),
            (StridedSliceSpec((0,), (1,), masks=Masks(begin=(2,))), r"begin_mask must hold only 0 and 1, got \[2\]"),
            (StridedSliceSpec((0,) * 2, (1,) * 2, masks=Masks(ellipsis=(1, 1))), "at most one ellipsis is allowed"),
            (StridedSliceSpec((0,) * 3, (1,) * 3), "3 entries name an axis, but the tensor has rank 2"),
            (StridedSliceSpec((0,), (1,), (0,)), r"the stride of axis 0 \(entry 0\) is 0"),
            (
                StridedSliceSpec((2,), (3,), masks=Masks(shrink_axis=(1,))),
                "entry 0 shrinks axis 0 to index 2, but the axis has 2",
            ),
            (StridedSliceSpec((-3,), (0,), masks=Masks(shrink_axis=(1,))), "shrinks axis 0 to index -3"),
        ],
    )
    def test_entries_that_break_a_rule_are_refused(self, spec: StridedSliceSpec, message: str) -> None:
        with pytest.raises(InvalidSlice, match=message):
            spec.resolve((2, 3))

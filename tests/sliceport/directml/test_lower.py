"""Lowering: each rule by example, then any region, element type, layout and feature level on the emulator."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st
from running import as_bytes, gathered, padded, run_call, run_node

from sliceport.directml import lower
from sliceport.directml.choose_operator import choose_split
from sliceport.directml.elements import ELEMENT_BITS
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.layouts import Options
from sliceport.directml.lower import lower_nodes
from sliceport.directml.lowered import LoweredNode
from sliceport.directml.operators import ElementWiseIdentity, Operator, Slice, Slice1, Split
from sliceport.directml.tensor import BufferTensor, DataType, packed_strides
from sliceport.errors import UsageError
from sliceport.slicing import Region, SplitSpec
from sliceport.slicing.node import Cut, Resolved


def node(
    *regions: Region, element: str = "FLOAT", name: str = "n", value: str = "x", unused: Collection[int] = ()
) -> Resolved:
    outputs = tuple(f"{name}{i}" for i in range(len(regions)))
    cuts = tuple(Cut(o, r, i not in unused) for i, (o, r) in enumerate(zip(outputs, regions, strict=True)))
    return Resolved(name, "Slice" if len(regions) == 1 else "Split", "", 13, (), value, element, outputs, cuts=cuts)


def lower_one(*regions: Region, element: str = "FLOAT", unused: Collection[int] = (), **options: Any) -> LoweredNode:
    if "level" in options:
        options["feature_level"] = FeatureLevel.parse(options.pop("level"))
    return lower_nodes([node(*regions, element=element, unused=unused)], Options(**options)).nodes[0]


def operator(lowered: LoweredNode) -> Operator:
    assert lowered.verdict == "lowered", lowered.reason
    (call,) = lowered.calls
    return call.operator


def kinds(*regions: Region, **options: Any) -> list[str]:
    """Return the names of the operators that a node is lowered to, or its verdict without any."""
    lowered = lower_one(*regions, **options)
    return [type(call.operator).__name__ for call in lowered.calls] or [lowered.verdict]


def refusal(region: Region, **options: Any) -> tuple[str, str]:
    """Return the code and the message of a refusal."""
    lowered = lower_one(region, **options)
    assert lowered.reason is not None
    return lowered.reason.code, lowered.reason.message


class TestVerdicts:
    def test_identity_is_an_alias(self) -> None:
        lowered = lower_one(Region.whole((2, 3)))
        assert (lowered.verdict, lowered.calls) == ("alias", ())
        assert (lowered.aliases[0].output, lowered.aliases[0].value) == ("n0", "x")

    def test_nothing_selected_is_empty(self) -> None:
        lowered = lower_one(Region.of((2, 3), (range(2), range(0))))
        assert (lowered.verdict, lowered.calls, lowered.aliases) == ("empty", (), ())

    @pytest.mark.parametrize("element", ["FLOAT", "COMPLEX128", "INT4"])
    @pytest.mark.parametrize("level", ["1.0", "6.4"])
    def test_more_elements_than_python_counts_are_refused(self, element: str, level: str) -> None:
        region = Region.of((2**40, 2**40), (range(2**39), range(2**40)))
        rest = Region.of((2**40, 2**40), (range(2**39, 2**40), range(2**40)))
        for lowered in (lower_one(region, element=element, level=level), lower_one(region, rest, element=element)):
            assert lowered.reason is not None
            assert (lowered.verdict, lowered.reason.code) == ("refused", "size_limit")
            assert "its input has 1208925819614629174706176 elements" in lowered.reason.message
        group = [node(region, name="a", element=element), node(rest, name="b", element=element)]
        assert {n.reason and n.reason.code for n in lower_nodes(group).nodes} == {"size_limit"}

    def test_empty_parts_are_left_out(self) -> None:
        split = operator(lower_one(*SplitSpec(1, (0, 3, 1, 0)).resolve((2, 4))))
        assert [tensor.sizes for tensor in split.outputs] == [(2, 3), (2, 1)]


class TestFewestDimensions:
    def test_split_has_two_dimensions_at_most(self) -> None:
        split = operator(lower_one(*SplitSpec(2, (1, 3)).resolve((2, 3, 4, 5, 6))))
        assert isinstance(split, Split)
        assert (split.input_tensor.sizes, split.axis) == ((6, 120), 1)
        split = operator(lower_one(*SplitSpec(0, (1, 3)).resolve((4, 5))))
        assert isinstance(split, Split)
        assert (split.input_tensor.sizes, split.axis) == ((20,), 0)

    def test_rank_9_coalesces(self) -> None:
        region = Region.of((2,) * 8 + (3,), (range(1, 2), *(range(2),) * 7, range(0, 3, 2)))
        assert operator(lower_one(region)).input_tensor.sizes == (256, 3)

    @pytest.mark.parametrize(("rank", "level"), [(8, "6.4"), (8, "3.0"), (5, "2.1")])
    def test_every_level_takes_its_most_dimensions(self, rank: int, level: str) -> None:
        op = operator(lower_one(Region.of((3,) * rank, (range(2),) * rank), level=level))
        assert op.input_tensor.sizes == (3,) * rank
        code, message = refusal(Region.of((3,) * (rank + 1), (range(2),) * (rank + 1)), level=level)
        assert code == "rank_limit"
        assert message == (
            f"Slice 'n': not lowered: {rank + 1} dimensions remain after coalescing, but DML_OPERATOR_SLICE1 supports "
            f"at most {rank} at feature level {level}."
        )

    def test_below_3_0_tensors_are_padded_to_four(self) -> None:
        op = operator(lower_one(Region.of((4, 3), (range(1, 3), range(2))), level="2.1"))
        assert isinstance(op, Slice1)
        assert op.input_tensor.sizes == (1, 1, 4, 3)
        assert op.input_window_offsets == (0, 0, 1, 0)
        assert op.input_window_sizes == (1, 1, 2, 2)


NCHW = Region.whole((2, 3, 4, 5))


class TestOperatorChoice:
    PARTS = SplitSpec(1, (2, 3, 1)).resolve((2, 6))

    def test_a_split_with_unused_parts_becomes_slices_that_move_less(self) -> None:
        lowered = lower_one(*self.PARTS, unused={1})
        assert [type(call.operator) for call in lowered.calls] == [Slice1, Slice1]
        assert [call.outputs[0].value for call in lowered.calls] == ["n0", "n2"]
        assert sum(call.moved_bytes for call in lowered.calls) == 2 * 3 * 4

    @pytest.mark.parametrize("unused", [set(), {0, 1, 2}], ids=["all used", "none used"])
    def test_parts_that_are_all_used_alike_are_one_split(self, unused: set[int]) -> None:
        assert kinds(*self.PARTS, unused=unused) == ["Split"]

    def test_parts_in_another_order_are_one_split_in_that_of_the_axis(self) -> None:
        lowered = lower_one(*reversed(self.PARTS))
        assert isinstance(operator(lowered), Split)
        assert [binding.value for binding in lowered.calls[0].outputs] == ["n2", "n1", "n0"]
        assert [tensor.sizes[1] for tensor in operator(lowered).outputs] == [2, 3, 1]

    def test_equal_cuts_of_other_types_and_layouts_are_other_operators(self) -> None:
        region = Region.of((4, 6), (range(4), range(1, 3)))
        nodes = [node(region, name="a"), node(region, name="b", element="INT64")]
        nodes += [node(region, name="c", value="y"), node(region, name="d"), node(region, name="e")]
        program = lower_nodes(nodes, Options(input_layout={"y": (7, 1)}, output_layout={"d0": (3, 1)}))
        first, other_type, other_input, other_output, again = [call.operator for call in program.calls]
        assert other_type.input_tensor.data_type == DataType.INT64
        assert other_input.input_tensor.strides == (7, 1)
        assert other_output.outputs[0].strides == (3, 1)
        assert again is first

    def test_forward_below_2_1_is_the_older_slice(self) -> None:
        op = operator(lower_one(Region.of((4, 7), (range(1, 3), range(1, 7, 2))), level="2.0"))
        assert isinstance(op, Slice)
        assert (op.offsets, op.sizes, op.strides) == ((0, 0, 1, 1), (1, 1, 2, 3), (1, 1, 1, 2))

    def test_backward_below_2_1_is_refused(self) -> None:
        code, message = refusal(Region.of((4,), (range(3, -1, -1),)), level="2.0")
        assert code == "feature_level"
        assert "needs DML_OPERATOR_SLICE1, which feature level 2.0 does not have" in message

    @pytest.mark.parametrize(
        ("region", "options", "expected"),
        [
            (Region.of((4,), (range(3, 2, -1),)), {"level": "1.0"}, "Slice"),  # one kept element has no direction
            (NCHW, {"input_layout": "NHWC"}, "ElementWiseIdentity"),
            (NCHW, {"input_layout": "NHWC", "output_layout": "NHWC"}, "alias"),
            (NCHW, {"input_layout": "NHWC", "level": "1.0"}, "Slice"),  # an identity takes floats alone there
            (NCHW, {"input_layout": "NHWC", "level": "1.0", "element": "INT32"}, "Slice"),
            (Region((1, 3), (range(1), range(3)), (3, 1)), {}, "alias"),  # axes are added and dropped
            (Region.whole((2**40,)), {}, "alias"),  # no operator, so no limit of size
            (Region.of((2**40,), (range(0),)), {}, "empty"),
            (Region.of((4, 6), (range(4), range(1, 3))), {"views": True}, "Slice1"),  # the start is not aligned
            (Region.of((4, 4), (range(3, -1, -1), range(4))), {"views": True}, "Slice1"),
            # Row-major was requested, so the output must not be a view with gaps.
            (Region.of((4, 4), (range(4), range(2))), {"views": True, "output_layout": "0,1"}, "Slice1"),
            (Region.whole((2**20, 2**20)), {"input_layout": {"x": (2**20, 1)}}, "alias"),  # packed strides
            (Region.whole((4, 6)), {"input_layout": {"x": (6, 1)}, "element": "COMPLEX128"}, "alias"),
        ],
    )
    def test_a_region_becomes_its_kind_of_operator(
        self, region: Region, options: dict[str, Any], expected: str
    ) -> None:
        assert kinds(region, **options) == [expected]

    def test_a_split_into_nothing_and_everything_is_an_alias(self) -> None:
        assert kinds(*SplitSpec(0, (0, 4)).resolve((4,))) == ["alias"]

    @pytest.mark.parametrize(("element", "copied"), [("FLOAT", "UINT32"), ("FLOAT16", "UINT16"), ("DOUBLE", "UINT64")])
    def test_identity_copies_floats_as_bits(self, element: str, copied: str) -> None:
        op = operator(lower_one(NCHW, element=element, input_layout="NHWC"))
        assert isinstance(op, ElementWiseIdentity)
        assert op.input_tensor.data_type.name == copied


class TestElementTypes:
    REGION = Region.of((3, 5), (range(1, 3), range(0, 5, 3)))

    @pytest.mark.parametrize(
        ("element", "level", "data_type", "sizes"),
        [
            ("INT64", "4.1", DataType.INT64, (3, 5)),
            ("INT64", "4.0", DataType.UINT32, (3, 5, 2)),
            ("DOUBLE", "3.0", DataType.UINT32, (3, 5, 2)),
            ("COMPLEX64", "6.4", DataType.UINT64, (3, 5)),
            ("COMPLEX64", "4.0", DataType.UINT32, (3, 5, 2)),
            ("COMPLEX128", "6.4", DataType.UINT64, (3, 5, 2)),
            ("COMPLEX128", "4.0", DataType.UINT32, (3, 5, 4)),
            ("BFLOAT16", "6.4", DataType.UINT16, (3, 5)),
            ("FLOAT8E4M3FN", "6.4", DataType.UINT8, (3, 5)),
            ("BOOL", "3.0", DataType.UINT8, (3, 5)),
            ("FLOAT16", "6.4", DataType.FLOAT16, (3, 5)),
        ],
    )
    def test_element_types_are_carried_as_types_of_directml(
        self, element: str, level: str, data_type: DataType, sizes: tuple[int, ...]
    ) -> None:
        op = operator(lower_one(self.REGION, element=element, level=level))
        assert (op.input_tensor.data_type, op.input_tensor.sizes) == (data_type, sizes)

    def test_pairs_coalesce_into_an_unstepped_axis(self) -> None:
        op = operator(lower_one(Region.of((3, 5), (range(3), range(1, 4))), element="INT64", level="4.0"))
        assert isinstance(op, Slice1)
        assert (op.input_tensor.sizes, op.input_window_offsets) == ((3, 10), (0, 2))

    def test_4_bit_elements_are_cut_on_bytes(self) -> None:
        op = operator(lower_one(Region.of((3, 6), (range(3), range(2, 6))), element="INT4"))
        assert (op.input_tensor.data_type, op.input_tensor.sizes) == (DataType.UINT8, (3, 3))

    @pytest.mark.parametrize(
        ("region", "layout", "sizes"),
        [
            # The axis whose elements lie side by side is the innermost one, though another order has as few axes.
            (Region.of((3, 2, 4), (range(1, 2), range(2), range(2))), "1,0,2", (2, 1)),
            (Region.of((3, 2, 4), (range(1, 2), range(2), range(2))), {"x": (4, 14, 1)}, (2, 1)),
            # The stride of an axis does not matter if one index of it is selected.
            (Region.of((3, 4), (range(1, 2), range(2))), {"x": (6, 1)}, (1, 1)),
        ],
        ids=["packed", "with gaps", "beside one kept element"],
    )
    def test_4_bit_elements_are_cut_on_bytes_in_a_layout(
        self, region: Region, layout: str | dict[str, tuple[int, ...]], sizes: tuple[int, ...]
    ) -> None:
        op = operator(lower_one(region, element="UINT4", input_layout=layout))
        assert (op.input_tensor.data_type, op.outputs[0].sizes) == (DataType.UINT8, sizes)

    @pytest.mark.parametrize(
        ("shape", "kept", "options"),
        [
            ((3, 5), (range(3), range(2)), {}),
            ((2, 4), (range(2), range(2)), {"input_layout": {"x": (8, 2)}}),
            ((2, 4), (range(2), range(2)), {"output_layout": {"n0": (3, 1)}}),
            ((3, 4), (range(3), range(2)), {"output_layout": {"n0": (3, 1)}}),
            ((2, 4), (range(2), range(2)), {"output_layout": {"n0": (8, 2)}}),
        ],
        ids=["rows begin inside bytes", "gaps inside bytes", "two rows written there", "three", "gaps written"],
    )
    def test_4_bit_elements_that_lie_across_bytes_are_refused(
        self, shape: tuple[int, ...], kept: tuple[range, ...], options: dict[str, Any]
    ) -> None:
        lowered = lower_one(Region.of(shape, kept), element="UINT4", **options)
        assert (lowered.verdict, lowered.reason and lowered.reason.code) == ("refused", "unaligned_type")

    def test_a_4_bit_cut_inside_a_byte_is_refused(self) -> None:
        code, message = refusal(Region.of((3, 6), (range(3), range(1, 5))), element="INT4")
        assert code == "unaligned_type"
        assert "INT4 elements have 4 bits, and they cannot be moved as whole elements of a data type that" in message

    def test_4_bit_tail_of_an_odd_buffer_is_lowered(self) -> None:
        op = operator(lower_one(Region.of((7,), (range(4, 7),)), element="UINT4"))
        assert (op.input_tensor.sizes, op.outputs[0].sizes) == ((4,), (2,))

    def test_8_bit_below_2_1_moves_in_pairs_or_not_at_all(self) -> None:
        op = operator(lower_one(Region.of((3, 6), (range(3), range(2, 6))), element="UINT8", level="1.0"))
        assert op.input_tensor.data_type == DataType.UINT16
        assert lower_one(Region.of((3, 6), (range(3), range(1, 6))), element="UINT8", level="1.0").verdict == "refused"

    @pytest.mark.parametrize("element", ["STRING", "", "UNDEFINED"])
    def test_other_element_types_are_refused(self, element: str) -> None:
        code, message = refusal(self.REGION, element=element)
        assert code == "unsupported_type"
        assert message.startswith("Slice 'n': not lowered: DirectML has no data type that carries")


class TestLimits:
    @pytest.mark.parametrize(
        ("region", "options", "message"),
        [
            (
                Region.of((2**16, 2**16 + 1), (range(2**16), range(5))),
                {},
                "4295032832 FLOAT32 elements, in a buffer of 17180131328 bytes, exceeds DirectML's limit of 4294967295",
            ),
            (
                Region.of((2**32 - 1,), (range(1, 2**32 - 1),)),
                {"element": "UINT8"},
                "4294967295 UINT8 elements, in a buffer of 4294967296 bytes, exceeds",  # the buffer is rounded up
            ),
            (Region.of((2**16, 2**15), (range(2**16), range(5))), {"element": "INT64", "level": "4.0"}, ""),
            (
                Region.of((2**32 - 1,), (range(0, 2**32 - 1, 2**31),)),
                {},
                "elements is more than DML_OPERATOR_SLICE1 supports (2147483647)",
            ),
        ],
        ids=["elements", "buffer", "pairs count as two", "step"],
    )
    def test_sizes_beyond_32_bits_are_refused(self, region: Region, options: dict[str, Any], message: str) -> None:
        code, got = refusal(region, **options)
        assert code == "size_limit"
        assert message in got

    @pytest.mark.parametrize(
        ("region", "element"),
        [
            (Region.of((2**32 - 1,), (range(1, 2**32 - 1),)), "FLOAT"),
            (Region.of((2**32 - 4,), (range(1, 2**32 - 4),)), "UINT8"),
            (Region.of((2**16, 2**15), (range(2**16), range(5))), "INT64"),
        ],
    )
    def test_the_largest_tensors_that_fit_are_lowered(self, region: Region, element: str) -> None:
        assert kinds(region, element=element) == ["Slice1"]


class TestSiblings:
    def slices(self, *runs: range, size: int = 6, rank_2: bool = True) -> list[Resolved]:
        return [
            node(Region.of((2, size), (range(2), run)) if rank_2 else Region.of((size,), (run,)), name=f"s{i}_")
            for i, run in enumerate(runs)
        ]

    def test_a_tiling_becomes_one_split_in_order_of_the_axis(self) -> None:
        program = lower_nodes(self.slices(range(4, 6), range(4)))
        (call,) = program.calls
        assert isinstance(call.operator, Split)
        assert [binding.value for binding in call.outputs] == ["s1_0", "s0_0"]
        assert [n.calls for n in program.nodes] == [(call,), (call,)]

    def test_slices_with_a_gap_or_an_overlap_stay_slices(self) -> None:
        for runs in ((range(3), range(4, 6)), (range(4), range(3, 6)), (range(4), range(4, 5))):
            assert all(isinstance(c.operator, Slice1) for c in lower_nodes(self.slices(*runs)).calls)

    def test_the_members_of_a_tiling_are_picked_out_of_others(self) -> None:
        program = lower_nodes(self.slices(range(1, 5), range(2), range(2, 6), range(0, 6, 2)))
        kinds = [type(n.calls[0].operator).__name__ for n in program.nodes]
        assert kinds == ["Slice1", "Split", "Split", "Slice1"]

    def test_two_equal_tilings_are_two_splits(self) -> None:
        program = lower_nodes(self.slices(range(2), range(2, 6), range(2), range(2, 6)))
        assert [type(c.operator) for c in program.calls] == [Split, Split]

    def test_slices_of_different_values_or_axes_do_not_join(self) -> None:
        left, right = self.slices(range(2), range(2, 6))
        other_value = node(right.cuts[0].region, name="o", value="y")
        other_axis = node(Region.of((2, 6), (range(1, 2), range(6))), name="a")
        for other in (other_value, other_axis):
            assert all(isinstance(c.operator, Slice1) for c in lower_nodes([left, other]).calls)

    def test_slices_that_cut_another_axis_too_do_not_join(self) -> None:
        nodes = [
            node(Region.of((2, 6), (range(1), run)), name=f"s{i}_") for i, run in enumerate((range(2), range(2, 6)))
        ]
        assert all(isinstance(c.operator, Slice1) for c in lower_nodes(nodes).calls)

    def test_a_slice_joins_one_tiling_at_most(self) -> None:
        nodes = self.slices(range(2), range(3, 6), range(4), range(2, 6), range(4, 6), range(3))
        nodes += [node(each.cuts[0].region, name=f"y{i}_", value="y") for i, each in enumerate(nodes)]
        program = lower_nodes(nodes)
        joined = {tuple(binding.value for binding in call.outputs) for call in program.calls}
        tilings = {("s0_0", "s3_0"), ("s2_0", "s4_0"), ("s5_0", "s1_0")}
        assert joined == tilings | {tuple(f"y{name[1]}_0" for name in names) for names in tilings}

    def test_below_3_0_a_split_still_has_four_dimensions(self) -> None:
        program = lower_nodes(self.slices(range(2), range(2, 6)), Options(FeatureLevel.V1_0))
        assert program.calls[0].operator.input_tensor.sizes == (1, 1, 2, 6)

    def test_siblings_of_a_type_that_directml_lacks_are_refused(self) -> None:
        program = lower_nodes([replace(each, element="STRING") for each in self.slices(range(2), range(2, 6))])
        assert [n.reason and n.reason.code for n in program.nodes] == ["unsupported_type"] * 2

    def test_siblings_that_cannot_be_a_split_are_tried_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tries = []

        def record(*args: Any) -> Operator:
            tries.append(args)
            return choose_split(*args)

        monkeypatch.setattr(lower, "choose_split", record)
        regions = [Region.of((8, 3), (range(i, i + 1), range(3))) for i in range(8)]
        nodes = [node(region, element="INT4", name=f"s{i}_") for i, region in enumerate(regions)]
        assert {n.verdict for n in lower_nodes(nodes).nodes} == {"refused"}
        assert len(tries) == 1

    def test_ids_of_calls_follow_the_order_of_the_model(self) -> None:
        nodes = [node(Region.of((9,), (range(3),)), name="first", value="w"), *self.slices(range(2), range(2, 6))]
        assert [c.id for n in lower_nodes(nodes).nodes for c in n.calls] == [0, 1, 1]


class TestViews:
    def test_an_aligned_forward_slice_is_a_view(self) -> None:
        lowered = lower_one(Region.of((4, 6), (range(2, 4), range(0, 6, 2))), views=True)
        (alias,) = lowered.aliases
        assert (lowered.verdict, alias.byte_offset) == ("alias", 48)
        assert alias.tensor == BufferTensor.of(DataType.FLOAT32, (2, 3), (6, 2))

    def test_the_stride_of_an_axis_with_one_kept_element_does_not_keep_axes_apart(self) -> None:
        region = Region.of((3, 2), (range(3), range(1)))
        assert operator(lower_one(region, output_layout={"n0": (5, 7)})).input_tensor.sizes == (6,)

    def test_unused_strides_of_a_split_may_be_large(self) -> None:
        parts = SplitSpec(0, (1, 2)).resolve((3, 2))
        assert kinds(*parts, output_layout={"n0": (2**40, 3), "n1": (5, 1)}) == ["Split"]

    @pytest.mark.parametrize("options", [{}, {"views": True}])
    def test_strides_of_31_bits_are_lowered(self, options: dict[str, Any]) -> None:
        region = Region.of((3,), (range(2),))
        lowered = lower_one(region, input_layout={"x": (2**31 - 1,)}, level="2.1", **options)
        assert lowered.verdict == ("alias" if options else "lowered")

    def test_views_need_only_the_older_slice(self) -> None:
        assert kinds(Region.of((8,), (range(4, 8),)), views=True, level="1.0") == ["alias"]

    def test_siblings_are_views(self) -> None:
        program = lower_nodes(
            [node(Region.of((8,), (run,)), name=f"{run}") for run in (range(4), range(4, 8))], Options(views=True)
        )
        assert [n.verdict for n in program.nodes] == ["alias", "alias"]

    def test_a_split_is_views_where_parts_are_aligned_and_slices_elsewhere(self) -> None:
        lowered = lower_one(*SplitSpec(0, (4, 3, 5)).resolve((12,)), views=True)
        assert [alias.byte_offset for alias in lowered.aliases] == [0, 16]
        assert [call.outputs[0].value for call in lowered.calls] == ["n2"]

    def test_a_slice_of_a_view_reads_the_views_buffer(self) -> None:
        first = node(Region.of((4, 6), (range(2, 4), range(0, 6, 2))), name="a")
        second = node(Region.of((2, 3), (range(2), range(1, 3))), name="b", value="a0")
        program = lower_nodes([first, second], Options(views=True))
        (call,) = program.calls
        assert (call.input.value, call.input.byte_offset) == ("x", 48)
        buffer = np.arange(24, dtype=np.float32).view(np.uint8)
        got = run_call(call, {"x": buffer})["b0"].view(np.float32)
        assert got.tolist() == [14, 16, 20, 22]

    def test_an_unread_part_beside_a_view_is_not_copied(self) -> None:
        parts = Region.of((12,), (range(5),)), Region.of((12,), (range(5, 12),))
        lowered = lower_one(*parts, unused={1}, views=True)
        assert [alias.output for alias in lowered.aliases] == ["n0"]
        assert lowered.calls == ()

    def test_a_value_of_an_outer_graph_is_found_from_a_branch(self) -> None:
        first = node(Region.of((8,), (range(4, 8),)), name="a")
        inner = node(Region.of((4,), (range(1, 3),)), name="b", value="a0")
        inner = replace(inner, scope=("if.then_branch",))
        call = lower_nodes([first, inner], Options(views=True)).calls[0]
        assert (call.input.value, call.input.byte_offset) == ("x", 16)


class TestLayouts:
    def test_nhwc_on_both_sides_coalesces_to_what_lies_together(self) -> None:
        region = Region.of((2, 3, 4, 5), (range(2), range(3), range(1, 3), range(5)))
        op = operator(lower_one(region, input_layout="NHWC", output_layout="NHWC"))
        assert (op.input_tensor.sizes, op.input_tensor.strides) == ((2, 60), None)

    def test_strides_for_a_misspelt_value_are_a_note(self) -> None:
        nodes = [node(Region.of((4, 6), (range(4), range(1, 3))))]
        program = lower_nodes(nodes, Options(input_layout={"x": (7, 1), "y": (7, 1)}, output_layout={"n": (2, 1)}))
        assert program.to_json()["notes"] == [
            "strides of inputs have no effect for 'y': no slicing node reads a value of this name",
            "strides of outputs have no effect for 'n': no slicing node writes a value of this name",
        ]

    def test_a_layout_holds_for_tensors_of_its_rank_alone(self) -> None:
        region = Region.of((4, 6), (range(4), range(1, 3)))
        assert operator(lower_one(region, input_layout="NHWC")).input_tensor.strides is None

    @pytest.mark.parametrize("options", [{"input_layout": "NHWC"}, {"output_layout": "NHWC"}])
    @pytest.mark.parametrize("is_copy", [True, False])
    def test_an_output_of_an_earlier_node_is_read_as_it_was_written(
        self, options: dict[str, Any], *, is_copy: bool
    ) -> None:
        channels = range(1, 3) if is_copy else range(2)
        x = np.arange(64, dtype=np.float32).reshape(1, 4, 4, 4) if is_copy else np.arange(32.0).reshape(2, 4, 4)
        x = x.astype(np.float32)
        ranges = (channels, range(4), range(4))
        first = node(Region(x.shape, (range(1), *ranges) if is_copy else ranges, (1, 2, 4, 4)), name="a")
        second = node(Region.of((1, 2, 4, 4), (range(1), range(1), range(1, 3), range(4))), name="b", value="a0")
        program = lower_nodes([first, second], Options(**options))
        strided = x.transpose(0, 2, 3, 1) if is_copy and "input_layout" in options else x
        buffers = {"x": as_bytes(strided)}
        for lowered in program.nodes:
            buffers |= {alias.output: buffers[alias.value] for alias in lowered.aliases}
            for call in lowered.calls:
                buffers |= run_call(call, buffers)
        expected = x.reshape(1, -1, 4, 4)[:, channels.start : channels.start + 1, 1:3]
        assert buffers["b0"].view(np.float32).tolist() == expected.reshape(-1).tolist()

    @pytest.mark.parametrize("strides", [(1,), (-6, 1), (6, -1), (-6, -1)])
    def test_strides_that_do_not_fit_are_a_usage_error(self, strides: tuple[int, ...]) -> None:
        with pytest.raises(UsageError, match=rf"strides {re.escape(str([*strides]))} do not fit value 'x' of shape"):
            lower_one(Region.of((4, 6), (range(4), range(1, 3))), input_layout={"x": strides})

    def test_overlapping_output_strides_are_refused(self) -> None:
        _, message = refusal(Region.of((4, 6), (range(4), range(1, 3))), output_layout={"n0": (0, 1)})
        assert "the output's strides may put two elements at one address" in message


# Any region, element type, layout and level: the bytes that arrive are the bytes selected.


@st.composite
def regions(draw: st.DrawFn, max_rank: int = 5, max_size: int = 5) -> Region:
    shape = tuple(draw(st.lists(st.integers(1, max_size), min_size=1, max_size=max_rank)))
    ranges = []
    for size in shape:
        start = draw(st.integers(0, size - 1))
        step = draw(st.sampled_from([1, 1, 1, 2, 3, -1, -1, -2]))
        most = (size - 1 - start) // step + 1 if step > 0 else start // -step + 1
        count = draw(st.one_of(st.just(most), st.integers(1, most)))
        ranges.append(range(start, start + count * step, step))
    if draw(st.booleans()):
        ranges = [draw(st.sampled_from([r, range(size)])) for r, size in zip(ranges, shape, strict=True)]
    return Region.of(shape, ranges)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], *, may_broadcast: bool) -> tuple[int, ...]:
    order = draw(st.permutations(range(len(shape))))
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis] + draw(st.sampled_from([0, 0, 0, 1, 8]))
    if may_broadcast and draw(st.booleans()):
        strides[draw(st.integers(0, len(shape) - 1))] = 0
    return tuple(strides)


def buffer_of(element: str, elements: int, random: np.random.Generator) -> np.ndarray:
    size = -(-elements * ELEMENT_BITS[element] // 32) * 4
    return random.integers(0, 256, size).astype(np.uint8)


def bits_of(data: np.ndarray, bits: int) -> np.ndarray:
    """Return the elements of a packed buffer, one row of bits each."""
    return np.unpackbits(data, bitorder="little").reshape(-1, bits)


def expected_bits(data: np.ndarray, region: Region, strides: tuple[int, ...], bits: int) -> np.ndarray:
    elements = bits_of(data[: data.size * 8 // bits * bits // 8], bits)
    offsets = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*region.ranges)]
    return elements[offsets]


@settings(max_examples=amount(300), deadline=None)
@given(st.data(), regions(max_rank=4, max_size=4), st.integers(0, 2**32 - 1))
def test_regions_are_copied_between_any_layouts(data: st.DataObject, region: Region, seed: int) -> None:
    element = data.draw(st.sampled_from(["FLOAT", "BFLOAT16", "INT64", "BOOL", "COMPLEX128"]))
    level = data.draw(st.sampled_from([FeatureLevel.V3_0, FeatureLevel.V6_4]))
    read = data.draw(layouts(region.input_shape, may_broadcast=True))
    write = data.draw(layouts(region.output_shape, may_broadcast=False))
    lowered = lower_one(
        region, element=element, feature_level=level, input_layout={"x": read}, output_layout={"n0": write}
    )
    bits = ELEMENT_BITS[element]
    reach = 1 + sum((n - 1) * s for n, s in zip(region.input_shape, read, strict=True))
    buffer = buffer_of(element, reach, np.random.default_rng(seed))
    want = expected_bits(buffer, region, read, bits)
    if lowered.verdict == "alias":
        assert region.selects_all
        got = buffer
    else:
        got = run_node(lowered, buffer)["n0"]
    offsets = [sum(i * s for i, s in zip(index, write, strict=True)) for index in np.ndindex(*region.output_shape)]
    elements = bits_of(got[: got.size * 8 // bits * bits // 8], bits)
    assert np.array_equal(elements[offsets], want)
    if lowered.calls:  # and nothing else was written
        untouched = np.ones(elements.shape[0], bool)
        untouched[offsets] = False
        assert (np.packbits(elements[untouched]) == 0xA5).all()


@settings(max_examples=amount(300), deadline=None)
@given(regions(), st.sampled_from(["FLOAT", "BOOL", "INT64", "FLOAT16"]), st.integers(0, 2**32 - 1))
def test_views_hold_the_elements_that_a_copy_would_hold(region: Region, element: str, seed: int) -> None:
    lowered = lower_one(region, element=element, views=True)
    bits = ELEMENT_BITS[element]
    buffer = buffer_of(element, prod(region.input_shape), np.random.default_rng(seed))
    want = expected_bits(buffer, region, packed_strides(region.input_shape), bits)
    for alias in lowered.aliases:
        assert alias.byte_offset % 16 == 0
        if alias.tensor is not None:
            assert alias.byte_offset + alias.tensor.total_tensor_size_in_bytes <= buffer.size
            alias.tensor.check("view")
            got = gathered(padded(buffer[alias.byte_offset :], 4), alias.tensor)
            assert np.array_equal(bits_of(got, bits), want)
    if lowered.calls:
        first = sum(r[0] * s for r, s in zip(region.ranges, packed_strides(region.input_shape), strict=True))
        assert any(r.step < 0 for r in region.ranges) or first * bits // 8 % 16 or first * bits % 8

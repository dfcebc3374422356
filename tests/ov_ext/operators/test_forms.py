"""Every form of hardening is right on the plugin, by Model.evaluate and folded.

These cases combine every type with each kind of node that is rewritten; `fuzz/openvino.py` draws random ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from amounts import some
from fuzz.openvino import check_many
from openvino_models import MASKS
from vectors import load

ELEMENTS = ("f32", "f64", "bf16", "i64", "u16", "i8", "boolean", "f8e4m3", "u4", "u2", "nf4", "string")
INDEX_TYPES = ("i32", "i16", "i8", "i4", "u64", "u32", "u16", "u8", "u4")
"""All but i64, which stands with every element type."""


KNOWN: Any = object()


def kind(
    op: str,
    indices: list[list[int]],
    shape: list[int],
    sizes: Any = KNOWN,
    late: Sequence[int] = (),
    **masks: list[int],
) -> dict[str, Any]:
    """Return a case without types. The index inputs in `late` are known at run time only."""
    run_time = [i in late for i in range(len(indices))]
    sizes = shape if sizes is KNOWN else sizes
    return {"op": op, "indices": indices, "shape": shape, "sizes": sizes, "run_time": run_time, "masks": masks}


strided, sliced = partial(kind, "StridedSlice"), partial(kind, "Slice")
ZEROS = [[0, 0], [0, 0], [1, 1]]
KINDS = {
    "shrunk at run time": strided([[2], [3], [1]], [4, 3], late=[0], shrink_axis_mask=[1]),
    "shrunk at run time beside an empty axis": strided(
        [[0, 0, 2], [3, 3, 3], [1, 1, 1]], [3, 0, 6], [3, -1, 6], late=[0], shrink_axis_mask=[0, 0, 1]
    ),
    "to a scalar": strided([[2], [3], [1]], [4], late=[0], shrink_axis_mask=[1]),
    "new and shrunk": strided([[1, 0], [2, 0], [1, 1]], [2, 3], new_axis_mask=[0, 1], shrink_axis_mask=[1, 0]),
    "picked at run time": strided(
        [[1, 0, 1], [3, 0, 2], [1, 1, 1]],
        [4, 3, 2],
        [-1, 3, 2],
        late=[0, 1],
        new_axis_mask=[0, 1, 0],
        shrink_axis_mask=[0, 0, 1],
    ),
    "an ellipsis and a new axis at run time": strided(
        ZEROS, [2, 3], [-1, 3], late=[0, 1], ellipsis_mask=[1, 0], new_axis_mask=[0, 1]
    ),
    "a new axis of a scalar": strided([[0], [0], [1]], [], new_axis_mask=[1]),
    "a new axis of any rank": strided([[0], [0], [1]], [], None, new_axis_mask=[1]),
    "a new axis behind any rank": strided(ZEROS, [2, 3], None, ellipsis_mask=[1, 0], new_axis_mask=[0, 1]),
    "without entries": strided([[], [], []], [4, 3], [-1, 3], late=[0, 1, 2]),
    "Slice without entries": sliced([[], [], []], [2, 3], [-1, 3]),
    "Slice without entries at run time": sliced([[], [], []], [2, 3], [-1, 3], late=[0, 1, 2]),
    "Slice by axes at run time": sliced([[1], [3], [1], [1]], [2, 4], late=[3]),
}
SIGNED = {
    "backwards through an axis that turns out empty": strided(
        [[0, -1], [0, -8], [-1, -1]], [0, 3], [-1, 3], begin_mask=[1, 0], end_mask=[1, 0]
    ),
    "backwards through an axis that is open": strided(
        [[-1, 0, 1], [-5, 0, 1], [-2, 1, 1]], [5, 3], [[0, 9], 3], new_axis_mask=[0, 1, 0], shrink_axis_mask=[0, 0, 1]
    ),
    "backwards at run time through an axis that turns out empty": strided(
        [[-1, 0], [-5, 2], [-1, 1]], [0, 3], [-1, 3], late=[0, 1, 2]
    ),
    "Slice by a far step": sliced([[4], [-5], [-8]], [3, 4], [[0, 5], 4]),
}


def case(untyped: dict[str, Any], element: str, index_type: str) -> dict[str, Any]:
    return {**untyped, "element": element, "index_types": [index_type] * len(untyped["indices"])}


def assert_right(cases: list[dict[str, Any]]) -> None:
    wrong = [(given, text) for given, text in zip(cases, check_many(cases), strict=True) if text is not None]
    assert wrong == []


@pytest.mark.parametrize("number", range(len(ELEMENTS)), ids=ELEMENTS)
def test_every_element_type_is_right_in_every_form(number: int) -> None:
    kinds = some([*KINDS.values(), *SIGNED.values()], start=number)
    assert_right([case(one, ELEMENTS[number], "i64") for one in kinds])


@pytest.mark.parametrize("number", range(len(INDEX_TYPES)), ids=INDEX_TYPES)
def test_every_index_type_is_right_in_every_form(number: int) -> None:
    index_type = INDEX_TYPES[number]
    kinds = [*KINDS.values(), *(SIGNED.values() if index_type.startswith("i") else ())]
    assert_right([case(one, "f32", index_type) for one in some(kinds, start=number)])


def test_backward_walks_through_empty_axes_are_right_in_every_form() -> None:
    kinds = [
        strided([[0, 0], [-5, -5], list(strides)], list(shape), sizes)
        for shape in itertools.product((0, 2), repeat=2)
        for strides in itertools.product((-1, 1), repeat=2)
        for sizes in (list(shape), [-1, -1], None)
    ]
    assert_right([case(one, "i32", "i64") for one in kinds])


def test_unsigned_step_beyond_63_bits_is_right_in_every_form() -> None:
    far = sliced([[1], [7], [2**63], [0]], [4, 2], [[3, 10], -1])
    assert_right([{**case(far, "f32", "u64"), "index_types": ["u64", "u64", "u64", "i64"]}])


@pytest.mark.parametrize("is_open", [False, True])
def test_cases_of_the_reference_are_right_in_every_form(*, is_open: bool) -> None:
    cases = []
    for one in load("openvino_reference"):
        names = ("begin", "end", "stride") if one["op"] == "StridedSlice" else ("start", "stop", "step", "axes")
        indices = [one[name] or [1] * len(one["begin"]) for name in names if one[name] is not None or name == "stride"]
        masks = {name: one[name] for name in MASKS if name in one}
        sizes = [-1] * len(one["data_shape"]) if is_open else KNOWN
        cases.append(case(kind(one["op"], indices, one["data_shape"], sizes, **masks), "i32", "i64"))
    assert_right(cases)

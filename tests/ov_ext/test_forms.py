"""Every form of hardening is right on the plugin, by Model.evaluate and folded.

These cases combine every type with each kind of node that is rewritten; `fuzz/openvino.py` draws random ones.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from fuzz.openvino import check_many
from openvino_forms import runs

ELEMENTS = ("f32", "f64", "bf16", "i64", "u16", "i8", "boolean", "f8e4m3", "u4", "u2", "nf4", "string")
INDEX_TYPES = ("i32", "i16", "i8", "i4", "u64", "u32", "u16", "u8", "u4")
"""All but i64, which stands with every element type."""


def strided(begin: list[int], end: list[int], strides: list[int], **masks: list[int]) -> dict[str, Any]:
    return {"op": "StridedSlice", "indices": [begin, end, strides], "masks": masks}


def late(*inputs: int, count: int = 3) -> dict[str, Any]:
    return {"run_time": [i in inputs for i in range(count)]}


KINDS: dict[str, dict[str, Any]] = {
    "shrunk at run time": {**strided([2], [3], [1], shrink_axis_mask=[1]), "shape": [4, 3], **late(0)},
    "shrunk at run time beside an empty axis": {
        **strided([0, 0, 2], [3, 3, 3], [1, 1, 1], shrink_axis_mask=[0, 0, 1]),
        "shape": [3, 0, 6],
        "sizes": [3, -1, 6],
        **late(0),
    },
    "to a scalar": {**strided([2], [3], [1], shrink_axis_mask=[1]), "shape": [4], **late(0)},
    "new and shrunk": {
        **strided([1, 0], [2, 0], [1, 1], new_axis_mask=[0, 1], shrink_axis_mask=[1, 0]),
        "shape": [2, 3],
    },
    "picked at run time": {
        **strided([1, 0, 1], [3, 0, 2], [1, 1, 1], new_axis_mask=[0, 1, 0], shrink_axis_mask=[0, 0, 1]),
        "shape": [4, 3, 2],
        "sizes": [-1, 3, 2],
        **late(0, 1),
    },
    "an ellipsis and a new axis at run time": {
        **strided([0, 0], [0, 0], [1, 1], ellipsis_mask=[1, 0], new_axis_mask=[0, 1]),
        "shape": [2, 3],
        "sizes": [-1, 3],
        **late(0, 1),
    },
    "a new axis of a scalar": {**strided([0], [0], [1], new_axis_mask=[1]), "shape": []},
    "a new axis of any rank": {**strided([0], [0], [1], new_axis_mask=[1]), "shape": [], "sizes": None},
    "a new axis behind any rank": {
        **strided([0, 0], [0, 0], [1, 1], ellipsis_mask=[1, 0], new_axis_mask=[0, 1]),
        "shape": [2, 3],
        "sizes": None,
    },
    "without entries": {**strided([], [], []), "shape": [4, 3], "sizes": [-1, 3], **late(0, 1, 2)},
    "Slice without entries": {"op": "Slice", "indices": [[], [], []], "shape": [2, 3], "sizes": [-1, 3]},
    "Slice without entries at run time": {
        "op": "Slice",
        "indices": [[], [], []],
        "shape": [2, 3],
        "sizes": [-1, 3],
        **late(0, 1, 2),
    },
    "Slice by axes at run time": {
        "op": "Slice",
        "indices": [[1], [3], [1], [1]],
        "shape": [2, 4],
        **late(3, count=4),
    },
}
SIGNED: dict[str, dict[str, Any]] = {
    "backwards through an axis that turns out empty": {
        **strided([0, -1], [0, -8], [-1, -1], begin_mask=[1, 0], end_mask=[1, 0]),
        "shape": [0, 3],
        "sizes": [-1, 3],
    },
    "backwards through an axis that is open": {
        **strided([-1, 0, 1], [-5, 0, 1], [-2, 1, 1], new_axis_mask=[0, 1, 0], shrink_axis_mask=[0, 0, 1]),
        "shape": [5, 3],
        "sizes": [[0, 9], 3],
    },
    "backwards at run time through an axis that turns out empty": {
        **strided([-1, 0], [-5, 2], [-1, 1]),
        "shape": [0, 3],
        "sizes": [-1, 3],
        **late(0, 1, 2),
    },
    "Slice by a far step": {"op": "Slice", "indices": [[4], [-5], [-8]], "shape": [3, 4], "sizes": [[0, 5], 4]},
}


def case(kind: dict[str, Any], element: str, index_type: str) -> dict[str, Any]:
    count = len(kind["indices"])
    types = [index_type] * count
    return {
        "element": element,
        "index_types": types,
        "run_time": [False] * count,
        "masks": {},
        "sizes": kind["shape"],
        **kind,
    }


def assert_right(cases: list[dict[str, Any]]) -> None:
    wrong = [(given, text) for given, text in zip(cases, check_many(cases), strict=True) if text is not None]
    assert wrong == []


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_element_type_is_right_in_every_form(element: str) -> None:
    assert_right([case(kind, element, "i64") for kind in (*KINDS.values(), *SIGNED.values())])


@pytest.mark.parametrize("index_type", INDEX_TYPES)
def test_every_index_type_is_right_in_every_form(index_type: str) -> None:
    kinds = (*KINDS.values(), *SIGNED.values()) if index_type.startswith("i") else KINDS.values()
    assert_right([case(kind, "f32", index_type) for kind in kinds])


def test_backward_walks_through_empty_axes_are_right_in_every_form() -> None:
    kinds = [
        {**strided([0, 0], [-5, -5], list(strides)), "shape": list(shape), "sizes": sizes}
        for shape in itertools.product((0, 2), repeat=2)
        for strides in itertools.product((-1, 1), repeat=2)
        for sizes in (list(shape), [-1, -1], None)
    ]
    assert_right([case(kind, "i32", "i64") for kind in kinds])


def test_unsigned_step_beyond_63_bits_is_right_in_every_form() -> None:
    far = {"op": "Slice", "indices": [[1], [7], [2**63], [0]], "shape": [4, 2], "sizes": [[3, 10], -1]}
    assert_right([{**case(far, "f32", "u64"), "index_types": ["u64", "u64", "u64", "i64"]}])


def test_cases_joined_in_one_model_give_what_each_gives() -> None:
    """The plugin does not accept one of the cases, because its rank is unknown."""
    chosen = [*KINDS.values()][4:8] + [*SIGNED.values()][:2]
    cases = [case(kind, "i32", "i64") for kind in chosen]
    assert [kind.get("sizes", 0) for kind in chosen].count(None) == 1
    together, each = list(runs(cases)), list(runs(cases, as_one=False))
    assert [sorted(found) for found in together] == [sorted(found) for found in each]
    for found, alone in zip(together, each, strict=True):
        for name, said in found.items():
            assert said == alone[name] or "dynamic rank" in said["error"], name

"""The oracle itself, on what the engines' own tests expect: it is transcribed from texts, and these were run."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from vectors import array, load

ONNXRUNTIME = load("onnxruntime_slice_split")
TENSORFLOW = load("tf_directml_strided_slice")
MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")


def parameter(case: dict[str, Any], position: int, attribute: str) -> list[int] | None:
    """Return a parameter by its position among the inputs or its name among the attributes, or None."""
    if attribute in case["attrs"]:
        return list(case["attrs"][attribute])
    given = case["inputs"][position] if position < len(case["inputs"]) else {"omitted": True}
    return None if "omitted" in given else array(given).tolist()


def sizes_of(case: dict[str, Any], dim: int) -> list[int]:
    """Return the parts of a Split: explicit, or equal with (since opset 18) a smaller last part."""
    split = parameter(case, 1, "split")
    if split is not None:
        return split
    count = case["attrs"].get("num_outputs") or len(case.get("expected") or case["expected_outputs_declared"])
    if dim % count and case["opset"] < 18:
        raise oracle.OracleError("not evenly splittable")
    chunk = (dim + count - 1) // count
    return [chunk] * (count - 1) + [dim - chunk * (count - 1)]


def by_oracle(case: dict[str, Any]) -> list[np.ndarray]:
    data = array(case["inputs"][0])
    if case["op"] == "Slice":
        starts, ends = parameter(case, 1, "starts"), parameter(case, 2, "ends")
        assert starts is not None
        assert ends is not None
        return [oracle.onnx_slice(data, starts, ends, parameter(case, 3, "axes"), parameter(case, 4, "steps"))]
    axis = case["attrs"].get("axis", 0)
    if not -data.ndim <= axis < data.ndim:
        raise oracle.OracleError("axis")
    split = parameter(case, 1, "split")
    declared = len(case.get("expected") or case["expected_outputs_declared"])
    if split is not None and len(split) != declared:
        raise oracle.OracleError("parts and outputs")
    return oracle.onnx_split(data, axis, sizes_of(case, data.shape[axis]))


def is_disputed(case: dict[str, Any]) -> bool:
    return bool(case.get("onnx_shape_disagreement"))


@pytest.mark.parametrize(
    "case", [c for c in ONNXRUNTIME if "expected" in c and not is_disputed(c)], ids=lambda c: c["name"]
)
def test_oracle_agrees_with_onnxruntime(case: dict[str, Any]) -> None:
    expected = [array(tensor) for tensor in case["expected"]]
    got = by_oracle(case)
    assert [part.shape for part in got] == [part.shape for part in expected]
    assert [part.dtype for part in got] == [part.dtype for part in expected]
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("case", [c for c in ONNXRUNTIME if is_disputed(c)], ids=lambda c: c["name"])
def test_onnxruntime_reverses_where_the_text_selects_nothing(case: dict[str, Any]) -> None:
    assert [part.size for part in by_oracle(case)] == [0]


@pytest.mark.parametrize("case", [c for c in ONNXRUNTIME if "expected_error" in c], ids=lambda c: c["name"])
def test_oracle_refuses_what_onnxruntime_refuses(case: dict[str, Any]) -> None:
    with pytest.raises(oracle.OracleError):
        by_oracle(case)


@pytest.mark.parametrize("case", TENSORFLOW, ids=lambda c: c["name"])
def test_oracle_agrees_with_tensorflow(case: dict[str, Any]) -> None:
    data, expected = array(case["input"]), array(case["expected"])
    got = oracle.strided_slice(
        data, case["begin"], case["end"], case["strides"], **{name: case[name] for name in MASKS}
    )
    assert got.shape == expected.shape
    assert got.tolist() == expected.tolist()

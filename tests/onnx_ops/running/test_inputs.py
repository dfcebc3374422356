"""Arrays that are given for inputs have the input's element type, or are the raw bytes of one that NumPy lacks."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_ops.running.inputs import make_inputs
from sliceport.arguments import load_array
from sliceport.errors import UsageError

KINDS = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.DOUBLE: np.dtype(np.float64),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.INT16: np.dtype(np.int16),
    TensorProto.UINT16: np.dtype(np.uint16),
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.UINT32: np.dtype(np.uint32),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.UINT64: np.dtype(np.uint64),
    TensorProto.BOOL: np.dtype(np.bool_),
    TensorProto.STRING: np.dtype(object),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.INT4: np.dtype(ml_dtypes.int4),
}
ARRAYS = [np.zeros(2, dtype) for dtype in KINDS.values() if dtype.kind != "O"] + [
    np.array(["a", "b"]),
    np.array(["a", "b"], object),
    np.zeros(2, "V2"),
    np.zeros(2, "V4"),
    np.zeros(2, "V1"),
]


def given(kind: TensorProto.DataType, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    value = helper.make_tensor_value_info("x", kind, [2])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [])
    return make_inputs(ir.from_proto(helper.make_model(graph)), {}, {"x": array}, seed=0)["x"]


@pytest.mark.parametrize(("kind", "array"), [*itertools.product(KINDS, ARRAYS)])
def test_arrays_of_other_element_types_are_refused(kind: TensorProto.DataType, array: npt.NDArray[Any]) -> None:
    wanted = KINDS[kind]
    is_lacked = kind in (TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.INT4)
    is_raw = is_lacked and array.dtype.char in "VBHIL" and array.itemsize == wanted.itemsize
    if array.dtype == wanted or is_raw or (wanted.kind == "O" and array.dtype.kind == "U"):
        assert given(kind, array).dtype == wanted
        return
    elements = "text" if wanted.kind == "O" else f"{wanted} elements"
    with pytest.raises(UsageError, match=rf"^input 'x' needs {elements}, got .+\.$"):
        given(kind, array)


@pytest.mark.parametrize("dtype", [">f4", "<f4"])
def test_the_order_of_bytes_is_the_array_s_own(dtype: str) -> None:
    assert given(TensorProto.FLOAT, np.array([1, 2], dtype)).tolist() == [1, 2]
    raw = np.array([1, 2], ml_dtypes.bfloat16).view(np.uint16)
    assert given(TensorProto.BFLOAT16, raw.astype(f"{dtype[0]}u2")).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (TensorProto.STRING, np.array(["a", 1], object)),
        (TensorProto.STRING, np.array([None, "a"], object)),
        (TensorProto.BFLOAT16, np.zeros(2, [("part", "<u2")])),
        (TensorProto.UINT4, np.array([1, 255], np.uint8)),
        (TensorProto.INT4, np.array([1, 0x18], np.uint8)),
    ],
)
def test_elements_that_the_type_lacks_are_refused(kind: TensorProto.DataType, array: npt.NDArray[Any]) -> None:
    with pytest.raises(UsageError, match=r"^input 'x' needs "):
        given(kind, array)


def test_index_of_a_gather_with_an_axis_of_a_wrong_type_is_drawn() -> None:
    values = [helper.make_tensor_value_info(n, kind, [2]) for n, kind in (("x", 1), ("i", TensorProto.INT64))]
    graph = helper.make_graph([helper.make_node("Gather", ["x", "i"], ["y"], axis=0.5)], "g", values, [])
    assert make_inputs(ir.from_proto(helper.make_model(graph)), {}, {}, seed=0)["i"].shape == (2,)


def test_a_shape_that_differs_from_the_array_is_refused() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    model = ir.from_proto(helper.make_model(helper.make_graph([], "g", [value], [])))
    array = np.zeros(2, np.float32)
    assert make_inputs(model, {"x": [2]}, {"x": array}, seed=0)["x"] is array
    with pytest.raises(UsageError, match=r"input 'x' is given shape \[3\] and an array of shape \[2\]\."):
        make_inputs(model, {"x": [3]}, {"x": array}, seed=0)


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (TensorProto.STRING, np.array(["a", "ü\u4e2d"])),
        (TensorProto.BFLOAT16, np.array([1, -2], ml_dtypes.bfloat16)),
        (TensorProto.INT4, np.array([7, -8], ml_dtypes.int4)),
    ],
)
def test_files_of_types_that_numpy_lacks_are_read(
    tmp_path: Path, kind: TensorProto.DataType, array: npt.NDArray[Any]
) -> None:
    np.save(tmp_path / "x.npy", array)
    assert given(kind, load_array(tmp_path / "x.npy")).tolist() == array.tolist()

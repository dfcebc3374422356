"""What goes into onnxruntime and comes out of it, byte for byte, whatever its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from platforms import ended_by

from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.runtime.onnxruntime_cpu import Captured, Exhausted
from onnx_ops.runtime.session import NotComparable, Value
from sliceport.errors import MissingExtra, ModelError
from sliceport.sandbox import supervisor

ELEMENTS = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e5m2": ml_dtypes.float8_e5m2, "int8": np.int8, "int16": np.int16,
    "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
    "uint64": np.uint64, "bool": np.bool_, "string": np.object_,
}  # fmt: skip


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str | onnx.ValueInfoProto],
    *,
    opset: int = 21,
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """A model; `inputs` and `outputs` are value infos or names."""
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [onnx.ValueInfoProto(name=o) if isinstance(o, str) else o for o in outputs],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def tensor(name: str, element: int, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def array_of(value: Value) -> npt.NDArray[Any]:
    assert isinstance(value, Captured)
    return value.array()


def element_of(dtype: npt.DTypeLike) -> int:
    return int(ir.DataType.from_numpy(np.dtype(dtype)).value)


def distinct(dtype: npt.DTypeLike, shape: tuple[int, ...]) -> np.ndarray:
    values = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    if dtype is np.object_:
        return np.array([f"ä{v}\0€" for v in values.reshape(-1)], object).reshape(shape)
    return (values % 2 == 1).astype(dtype) if dtype is np.bool_ else values.astype(dtype)


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)], ids=str)
@pytest.mark.parametrize("name", ELEMENTS)
def test_every_type_goes_in_and_comes_out(name: str, shape: tuple[int, ...]) -> None:
    dtype = ELEMENTS[name]
    array, element = distinct(dtype, shape), element_of(ELEMENTS[name])
    proto = model([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", element, shape)], ["y"])
    (got,) = onnxruntime_cpu.run(proto, {"x": array}, ["y"]).values()
    assert isinstance(got, Captured)
    assert got.equals(Captured.of(array))
    assert (got.shape, got.element) == (shape, element)
    assert np.array_equal(array_of(got), array)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_types_of_less_than_a_byte_are_packed(dtype: npt.DTypeLike) -> None:
    array = np.array([1, 2, 3, 4, 5, 6, 7], dtype)
    proto = model(
        [helper.make_node("DequantizeLinear", ["x", "one"], ["y"])],
        [tensor("x", element_of(dtype), [7])],
        ["y"],
        initializers=[onnx.numpy_helper.from_array(np.array(1, np.float32), "one")],
    )
    (got,) = onnxruntime_cpu.run(proto, {"x": array}, ["y"]).values()
    assert array_of(got).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert Captured.of(array).data.size == 4
    assert np.array_equal(Captured.of(array).array(), array)


def test_sequences_maps_and_optionals() -> None:
    x = distinct(np.float32, (2, 3))
    proto = model(
        [
            helper.make_node("SplitToSequence", ["x"], ["s"], axis=1),
            helper.make_node("Optional", ["x"], ["o"]),
            helper.make_node("Optional", [], ["n"], type=helper.make_tensor_type_proto(TensorProto.FLOAT, None)),
            helper.make_node("Identity", ["x"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        ["s", "o", "y"],
    )
    got = onnxruntime_cpu.run(proto, {"x": x}, ["s", "o", "y"])
    sequence = got["s"]
    assert isinstance(sequence, tuple)
    assert [array_of(part).tolist() for part in sequence] == [[[1], [4]], [[2], [5]], [[3], [6]]]
    assert np.array_equal(array_of(got["o"]), x)
    assert np.array_equal(array_of(got["y"]), x)


def test_what_onnxruntime_does_not_give_out_is_said() -> None:
    """An output of bfloat16 beside an input of strings, which only the interface by NumPy's types takes."""
    proto = model(
        [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["b"], ["c"])],
        [tensor("x", TensorProto.STRING, [1]), tensor("b", TensorProto.BFLOAT16, [1])],
        ["y", "c"],
    )
    inputs = {"x": np.array(["a"], object), "b": np.ones(1, ml_dtypes.bfloat16)}
    got = onnxruntime_cpu.run(proto, inputs, ["y", "c"])
    assert array_of(got["y"]).tolist() == ["a"]
    assert got["c"] == NotComparable("tensor(bfloat16)")


def division() -> onnx.ModelProto:
    inputs = [tensor(name, TensorProto.INT64, [2]) for name in "xd"]
    return model([helper.make_node("Div", ["x", "d"], ["y"])], inputs, ["y"])


SIX = {"x": np.array([6, 8]), "d": np.array([2, 4])}


def test_a_model_that_ends_the_process_is_an_error_and_the_next_one_runs() -> None:
    with pytest.raises(ModelError, match=f"onnxruntime cannot run the model: its process {ended_by('SIGFPE')}"):
        onnxruntime_cpu.run(division(), {"x": np.array([6, -(2**63)]), "d": np.array([2, -1])}, ["y"])
    (got,) = onnxruntime_cpu.run(division(), SIX, ["y"]).values()
    assert array_of(got).tolist() == [3, 2]


def endless() -> onnx.ModelProto:
    go_on = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])]
    body = helper.make_graph(
        go_on,
        "body",
        [tensor("i", TensorProto.INT64, []), tensor("c", TensorProto.BOOL, []), tensor("v", TensorProto.FLOAT, [])],
        [tensor("d", TensorProto.BOOL, []), tensor("w", TensorProto.FLOAT, [])],
    )
    loop = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
    yes = onnx.numpy_helper.from_array(np.array(True), "yes")
    return model([loop], [tensor("x", TensorProto.FLOAT, [])], ["y"], initializers=[yes])


def test_a_run_on_values_of_our_own_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime_cpu, "_SECONDS", 1.0)
    with (
        onnxruntime_cpu.bounded(),
        pytest.raises(Exhausted, match="onnxruntime takes more than 1 s to run the model"),
    ):
        onnxruntime_cpu.run(endless(), {"x": np.array(1, np.float32)}, ["y"])


def test_a_model_that_takes_too_much_memory_is_an_error() -> None:
    sizes = onnx.numpy_helper.from_array(np.array([2**16, 2**20]), "sizes")
    proto = model(
        [helper.make_node("Expand", ["x", "sizes"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [1])],
        ["y"],
        initializers=[sizes],
    )
    with pytest.raises((MemoryError, ModelError)):
        onnxruntime_cpu.run(proto, {"x": np.ones(1, np.float32)}, ["y"])


def test_without_onnxruntime_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match="onnxruntime is needed"):
        onnxruntime_cpu.run(division(), SIX, ["y"])


def test_it_runs_in_another_process_which_serves_call_after_call(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    original = supervisor.call

    def call(*args: Any, **options: Any) -> Any:
        called.append(args)
        return original(*args, **options)

    monkeypatch.setattr(supervisor, "call", call)
    for _ in range(2):
        onnxruntime_cpu.capture(division(), SIX, ["y"])
    assert len(called) == 2

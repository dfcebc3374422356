"""Values go into onnxruntime and come out of it byte for byte, whatever their type."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx_models import parse, save
from platforms import ended_by
from running import as_array

from onnx_ops.engines import ONNXRUNTIME_CPU, OPTIMIZERS
from onnx_ops.running import onnxruntime_cpu, session
from onnx_ops.running.session import Captured
from sliceport.engines.engine import Value
from sliceport.engines.side import RunFailed
from sliceport.errors import MissingExtra
from sliceport.sandbox import supervisor
from sliceport.sandbox.child import this_process

ELEMENTS = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e5m2": ml_dtypes.float8_e5m2, "int8": np.int8, "int16": np.int16,
    "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
    "uint64": np.uint64, "bool": np.bool_, "string": np.object_,
}  # fmt: skip


def run(proto: onnx.ModelProto, inputs: dict[str, npt.NDArray[Any]], names: list[str]) -> dict[str, Value]:
    """Run a model in a child."""
    return onnxruntime_cpu.side().run(onnxruntime_cpu.build_whole_model(proto, names), inputs)


def run_side(proto: onnx.ModelProto, inputs: dict[str, npt.NDArray[Any]]) -> Any:
    return run(proto, inputs, ["y"])["y"]


def element_of(dtype: npt.DTypeLike) -> int:
    return int(ir.DataType.from_numpy(np.dtype(dtype)).value)


def distinct(dtype: npt.DTypeLike, shape: tuple[int, ...]) -> np.ndarray:
    values = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    if dtype is np.object_:
        return np.array([f"ä{v}\0€" for v in values.reshape(-1)], object).reshape(shape)
    return (values % 2 == 1).astype(dtype) if dtype is np.bool_ else values.astype(dtype)


def test_c_library_without_mallopt_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """musl, too, has CS_GNU_LIBC_VERSION in `os.confstr_names`."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    session._fill_new_memory(1)


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)], ids=str)
@pytest.mark.parametrize("name", ELEMENTS)
def test_every_type_goes_in_and_comes_out(name: str, shape: tuple[int, ...]) -> None:
    dtype = ELEMENTS[name]
    array, element = distinct(dtype, shape), element_of(ELEMENTS[name])
    proto = parse(f"(float{[*shape] if shape else ''} x) => (y) {{ y = Identity (x) }}", 21, 10)
    proto.graph.input[0].type.tensor_type.elem_type = element
    (got,) = run(proto, {"x": array}, ["y"]).values()
    captured = Captured.of(as_array(got))
    assert captured.data.tolist() == Captured.of(array).data.tolist()
    assert (captured.shape, captured.element) == (shape, element)
    assert np.array_equal(as_array(got), array)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_types_of_less_than_a_byte_are_packed(dtype: npt.DTypeLike) -> None:
    array = np.array([1, 2, 3, 4, 5, 6, 7], dtype)
    proto = parse("(float[7] x) => (y) <float one = {1.0}> { y = DequantizeLinear (x, one) }", 21, 10)
    proto.graph.input[0].type.tensor_type.elem_type = element_of(dtype)
    (got,) = run(proto, {"x": array}, ["y"]).values()
    assert as_array(got).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert Captured.of(array).data.size == 4
    assert np.array_equal(Captured.of(array).array(), array)


def test_sequences_and_optionals_come_out() -> None:
    x = distinct(np.float32, (2, 3))
    nodes = "{ s = SplitToSequence<axis = 1> (x)  o = Optional (x)  y = Identity (x) }"
    proto = parse(f"(float[2, 3] x) => (s, o, y) {nodes}", 21, 10)
    got = run(proto, {"x": x}, ["s", "o", "y"])
    sequence = got["s"]
    assert isinstance(sequence, tuple)
    assert [as_array(part).tolist() for part in sequence] == [[[1], [4]], [[2], [5]], [[3], [6]]]
    assert np.array_equal(as_array(got["o"]), x)
    assert np.array_equal(as_array(got["y"]), x)


def test_value_that_onnxruntime_does_not_return_is_left_out() -> None:
    """Read bfloat16 beside an input of strings, which only the interface by NumPy's types takes."""
    proto = parse("(string[1] x, bfloat16[1] b) => (y, c) { y = Identity (x)  c = Identity (b) }", 21, 10)
    inputs = {"x": np.array(["a"], object), "b": np.ones(1, ml_dtypes.bfloat16)}
    got = run(proto, inputs, ["y", "c"])
    assert as_array(got["y"]).tolist() == ["a"]
    assert got.keys() == {"y"}


DIVISION = parse("(int64[2] x, int64[2] d) => (y) { y = Div (x, d) }", 21, 10)
SIX = {"x": np.array([6, 8]), "d": np.array([2, 4])}


def test_model_that_ends_the_process_is_an_error_and_the_next_one_runs() -> None:
    with pytest.raises(RunFailed, match=f"its process {ended_by('SIGFPE')}"):
        run_side(DIVISION, {"x": np.array([6, -(2**63)]), "d": np.array([2, -1])})
    assert run_side(DIVISION, SIX).tolist() == [3, 2]


def test_model_that_takes_too_much_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = "<int64[2] sizes = {65536, 1048576}>"
    proto = parse(f"(float[1] x) => (y) {sizes} {{ y = Expand (x, sizes) }}", 21, 10)
    with pytest.raises(RunFailed) as error:
        run_side(proto, {"x": np.ones(1, np.float32)})
    assert error.value.failure.kind == "memory"
    monkeypatch.setattr(this_process, "memory", 2**40)  # as for --memory, which may be at fault instead of the engine
    with pytest.raises(MemoryError):
        run_side(proto, {"x": np.ones(1, np.float32)})


def test_node_named_like_a_lack_of_memory_is_refused_as_any_other() -> None:
    proto = parse("(int64[2] x, int64[2] d) => (y) { y = Reshape (x, d) }", 21, 10)
    proto.graph.node[0].name = "bad_alloc"
    with pytest.raises(RunFailed, match="Name:'bad_alloc'") as error:
        run_side(proto, SIX)
    assert error.value.failure.kind == "error"


def test_missing_onnxruntime_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match="onnxruntime is needed"):
        run_side(DIVISION, SIX)


def test_onnxruntime_that_cannot_be_loaded_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('DLL load failed')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime")
    with pytest.raises(MissingExtra, match="needs onnxruntime, which cannot be loaded: DLL load failed"):
        onnxruntime_cpu.load()


@pytest.mark.parametrize("level", session.LEVELS)
def test_script_runs_the_model_and_disables_prepacking_at_level_none_alone(level: str, tmp_path: Path) -> None:
    script = ONNXRUNTIME_CPU.script({"level": level})
    assert ("disable_prepacking" in script) == (level == "none")
    names: dict[str, Any] = {"path": str(save(DIVISION, tmp_path / "model.onnx")), "inputs": SIX}
    exec(script, names)
    assert names["got"][0].tolist() == [3, 2]


def test_every_run_is_a_call_of_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    original = supervisor.call

    def call(*args: Any, **options: Any) -> Any:
        called.append(args)
        return original(*args, **options)

    monkeypatch.setattr(supervisor, "call", call)
    for _ in range(2):
        run_side(DIVISION, SIX)
    assert len(called) == 2


def test_message_leaves_out_the_position_in_the_sources() -> None:
    proto = parse("(float[2] x) => (y) { y = Neg (x) }")
    proto.ir_version = 99
    with pytest.raises(RunFailed, match="FAIL : Unsupported model IR version: 99"):
        run_side(proto, {"x": np.ones(2, np.float32)})


def test_position_in_the_sources_of_windows_is_left_out() -> None:
    message = (
        r"1 : FAIL : E:\_work\1\s\onnxruntime\core\graph\model.cc:182 onnxruntime::Model::Model Unsupported version: 99"
    )
    assert session._POSITION.sub("", message) == "1 : FAIL : Unsupported version: 99"


def test_every_optimizer_that_runs_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    options = ort.SessionOptions()
    options.log_severity_level = 0
    ort.InferenceSession(parse("(float[2] x) => (y) { y = Neg(x) }").SerializeToString(), options)
    optimizers = set(re.findall(r"GraphTransformer (\w+) modified", capfd.readouterr().err))
    assert optimizers & {*OPTIMIZERS}
    # `OPTIMIZERS` has each rule of the two groups. The others have no effect here, or cannot be disabled.
    others = {"Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer", "FreeDimensionOverrideTransformer"}
    others |= {"CastFloat16Transformer", "MemcpyTransformer", "RemoveDuplicateCastTransformer", "RocmBlasAltImpl"}
    assert optimizers <= others | {*OPTIMIZERS}

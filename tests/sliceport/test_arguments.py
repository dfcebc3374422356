"""Arguments of the Python functions: what other libraries call an integer is one, all else is one clear sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import openvino as ov
import pytest
from onnx_models import save
from openvino import opset8

import ov_ext
import sliceport
from onnx_ops.running.compare import compare as onnx_compare
from onnx_ops.running.verify import verify_rewriting
from ov_ext.running.compare import compare as openvino_compare
from sliceport.arguments import load_array, read_input_shapes

Call = Callable[..., Any]


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    """Save a model that needs a size, and whose slice needs inference."""
    nodes = (
        "s = Constant <value_ints = [1]> ()  e = Constant <value_ints = [3]> ()  z = Neg (x)  y = Slice (z, s, e, s)"
    )
    return save(f"(float[n,6] x) => (float[m,k] y) {{ {nodes} }}", tmp_path / "m.onnx", 17, 9)


@pytest.fixture
def openvino_file(tmp_path: Path) -> Path:
    data = ov.op.Parameter(ov.Type.f32, ov.PartialShape([-1, 6]))
    data.set_friendly_name("x")
    ov.save_model(ov.Model([opset8.slice(data, [1], [3], [1], [1]).output(0)], [data], "m"), tmp_path / "m.xml")
    return tmp_path / "m.xml"


def rewrite(model: Any, **options: Any) -> Any:
    return sliceport.rewrite(model, Path(model).with_name("o.onnx"), **options)


def harden(model: Any, **options: Any) -> Any:
    return sliceport.harden(model, Path(model).with_name("o.onnx"), **options)


def verify(model: Any, **options: Any) -> Any:
    return verify_rewriting(model, model, **options)


def diff(model: Any, **options: Any) -> Any:
    return sliceport.diff(model, on="onnxruntime-cpu", **options)


def assert_refused(calls: Iterable[tuple[Call, Path]], message: str, **options: Any) -> None:
    for call, model in calls:
        with pytest.raises(sliceport.UsageError, match=message):
            call(model, **options)


LOWER: list[Call] = [sliceport.lower]
RUN: list[Call] = [sliceport.compare, onnx_compare, rewrite, harden, verify, diff]
OPENVINO: list[Call] = [sliceport.lower, sliceport.compare]
SIZES = [
    np.array([4, 6]),
    (np.int64(4), np.uint8(6)),
    [4, np.int32(6)],
    np.array([4, 6], np.uint64),
    ov.Shape([4, 6]),
    ir.Shape([4, 6]),
]


@pytest.mark.parametrize("sizes", SIZES, ids=repr)
class TestSizesOfOtherLibraries:
    def test_sizes_become_ints(self, sizes: Any) -> None:
        (read,) = read_input_shapes({"x": sizes}).values()
        assert read == (4, 6)
        assert {type(size) for size in read} == {int}

    def test_onnx_takes_the_sizes(self, sizes: Any, onnx_file: Path) -> None:
        expected = sliceport.lower(onnx_file, input_shapes={"x": (4, 6)}).to_json()
        assert expected["summary"]["lowered"] == 1
        for lower in LOWER:
            assert lower(onnx_file, input_shapes={"x": sizes}).to_json() == expected
        for compare in (sliceport.compare, onnx_compare):
            report = compare(onnx_file, input_shapes={"x": sizes})
            assert [one.status for one in report.comparisons] == ["equal"]
            assert "x:4,6" in report.command
        assert rewrite(onnx_file, verify=True, input_shapes={"x": sizes}).is_clean
        assert verify(onnx_file, input_shapes={"x": sizes}).is_equal

    def test_openvino_takes_the_sizes(self, sizes: Any, openvino_file: Path) -> None:
        assert sliceport.lower(openvino_file, input_shapes={"x": sizes}).summary["lowered"] == 1
        report = sliceport.compare(openvino_file, input_shapes={"x": sizes}, executors=["dml-emulator"])
        assert [one.status for one in report.comparisons] == ["equal"]
        assert "x:4,6" in report.command


SEQUENCE = "the shape of input 'x' must be a sequence of integers, got"
BAD_SHAPES = [
    ({"x": (4, 6.0)}, rf"{SEQUENCE} 6\.0\.$"),
    ({"x": (4, "6")}, rf"{SEQUENCE} '6'\.$"),
    ({"x": "4,6"}, rf"{SEQUENCE} '4,6'\.$"),
    ({"x": (None, 6)}, rf"{SEQUENCE} None\.$"),
    ({"x": 4}, rf"{SEQUENCE} 4\.$"),
    ({"x": {4, 6}}, rf"{SEQUENCE} \{{4, 6\}}\.$"),
    ({"x": np.array([[4, 6]])}, rf"{SEQUENCE} array\(\[4, 6\]\)\.$"),
    ({"x": (-1, 6)}, r"the shape of input 'x' must not have negative sizes, got \[-1, 6\]\.$"),
    ({"x": np.array([-1, 6])}, r"the shape of input 'x' must not have negative sizes, got \[-1, 6\]\.$"),
    ({"x": (2**63, 6)}, r"the shape of input 'x' must have sizes below 2\*\*63, got \[9223372036854775808, 6\]\.$"),
    ({3: (4, 6)}, r"input_shapes must map names of inputs to sizes, got 3 as a name\.$"),
    ([("x", (4, 6))], r"input_shapes must map names of inputs to sizes, got \[\('x', \(4, 6\)\)\]\.$"),
]


@pytest.mark.parametrize(("shapes", "message"), BAD_SHAPES, ids=lambda each: repr(each)[:40])
def test_bad_shapes(shapes: Any, message: str, onnx_file: Path, openvino_file: Path) -> None:
    calls = [(call, onnx_file) for call in (*LOWER, *RUN)] + [(call, openvino_file) for call in OPENVINO]
    assert_refused(calls, message, input_shapes=shapes)


def test_the_largest_size_is_one_for_onnx_and_open_for_openvino(onnx_file: Path, openvino_file: Path) -> None:
    shapes = {"x": (2**63 - 1, 6)}
    (node,) = sliceport.lower(onnx_file, input_shapes=shapes).nodes
    assert (node.reason and node.reason.code) == "size_limit"
    with pytest.raises(sliceport.UsageError, match=r"below 2\*\*63 - 1 \(OpenVINO reads that size as open\), got \[92"):
        sliceport.lower(openvino_file, input_shapes=shapes)


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"m.onnx"


NO_MODELS: list[Any] = [None, 3, object(), b"m.onnx", BytesPath(), ["m.onnx"], onnx.GraphProto()]
FUNCTIONS: list[Call] = [sliceport.lower, sliceport.compare, sliceport.rewrite, sliceport.harden]


@pytest.mark.parametrize("value", NO_MODELS, ids=lambda each: type(each).__name__)
def test_values_that_are_no_models_or_paths_are_refused(value: Any, tmp_path: Path, onnx_file: Path) -> None:
    calls: list[Call] = [
        *FUNCTIONS,
        onnx_compare,
        openvino_compare,
        lambda model: sliceport.harden(model, tmp_path / "o.onnx"),
    ]
    for call in calls:
        with pytest.raises(sliceport.UsageError, match=f"^a model is .*, got {type(value).__name__}"):
            call(value)
    with pytest.raises(sliceport.UsageError, match="^the model must be the path of a file"):
        ov_ext.read_model(value)
    if value is not None:
        for change in (sliceport.rewrite, sliceport.harden):
            with pytest.raises(
                sliceport.UsageError, match="^the output must be the path of a file, a str or os.PathLike"
            ):
                change(onnx_file, value)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (onnx.GraphProto(), "a file's path, an onnx.ModelProto or an onnx_ir.Model, got GraphProto"),
        (onnx.NodeProto(), "a file's path, an onnx.ModelProto or an onnx_ir.Model, got NodeProto"),
        (ir.Graph([], [], nodes=[]), "a file's path, an onnx.ModelProto or an onnx_ir.Model, got Graph"),
        (ov.PartialShape([1]), "a file's path or an openvino.Model, got PartialShape"),
        (BytesPath(), "a file's path or an object of .*, got BytesPath"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_objects_that_are_no_models(model: Any, message: str) -> None:
    with pytest.raises(sliceport.UsageError, match=f"a model is {message}"):
        sliceport.lower(model)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (-1, "the seed must not be negative, got -1"),
        (np.int64(-1), "the seed must not be negative, got -1"),
        (1.5, r"the seed must be an integer, got 1\.5"),
        ("1", "the seed must be an integer, got '1'"),
        (None, "the seed must be an integer, got None"),
    ],
)
def test_wrong_seed_is_named(seed: Any, message: str, onnx_file: Path, openvino_file: Path) -> None:
    shapes = {"x": (4, 6)}
    calls = [(call, onnx_file) for call in RUN] + [(call, openvino_file) for call in OPENVINO[1:]]
    assert_refused(calls, message, seed=seed, input_shapes=shapes)


def test_a_seed_of_numpy_is_one(onnx_file: Path) -> None:
    seed: Any = np.int64(3)
    report = sliceport.compare(onnx_file, seed=seed, input_shapes={"x": (4, 6)})
    assert "--seed 3 " in report.command


class Refusing:
    def __array__(self, *_: object) -> None:
        raise RuntimeError("it requires grad.\nDetach it.")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": [[1.0] * 6]}, "input 'x' must be a NumPy array, got list; numpy.array makes one"),
        ({"x": None}, "input 'x' must be a NumPy array, got NoneType"),
        ({"x": Refusing()}, r"input 'x' cannot be converted to a NumPy array \(it requires grad. Detach it\)\.$"),
        ({3: np.zeros(2)}, "inputs must map names of inputs to arrays, got 3 as a name"),
        (np.zeros(2), r"inputs must map names of inputs to arrays, got array\(\[0\., 0\.\]\)"),
    ],
    ids=lambda each: repr(each)[:20],
)
def test_bad_inputs(inputs: Any, message: str, onnx_file: Path) -> None:
    assert_refused([(call, onnx_file) for call in RUN], message, inputs=inputs)


class Tensor:
    """As other libraries have them."""

    def __array__(self, *_: object) -> Any:
        return np.ones((4, 6), np.float32)


def test_arrays_of_other_libraries(onnx_file: Path) -> None:
    given: Mapping[str, Any] = {"x": Tensor()}
    assert sliceport.compare(onnx_file, inputs=given).is_clean
    assert rewrite(onnx_file, inputs=given, verify=True).is_clean


@pytest.mark.parametrize("option", ["input_layout", "output_layout"])
@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ((1, 0), r"a layout must be an axis order \(NHWC or .*\) or must map names of values to strides, got \(1, 0\)"),
        ({3: (6, 1)}, "a layout .* must map names of values to strides, got 3 as a name"),
        ({"x": 3}, "the strides of value 'x' must be a sequence of integers, got 3"),
        ({"x": (6.0, 1)}, r"the strides of value 'x' must be a sequence of integers, got 6\.0"),
        ({"x": "61"}, "the strides of value 'x' must be a sequence of integers, got '61'"),
    ],
    ids=lambda each: repr(each)[:20],
)
def test_bad_layouts(layout: Any, message: str, option: str, onnx_file: Path, openvino_file: Path) -> None:
    calls = [(each, onnx_file) for each in LOWER] + [(each, openvino_file) for each in OPENVINO[:1]]
    assert_refused(calls, message, **{option: layout})


def test_strides_of_numpy_are_taken(onnx_file: Path) -> None:
    given: list[Any] = [(1, 4), np.array([1, 4])]
    lowered = [
        sliceport.lower(onnx_file, input_shapes={"x": (4, 6)}, input_layout={"z": strides}).to_json()
        for strides in given
    ]
    assert lowered[0] == lowered[1]


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        (sliceport.compare, {"executors": "dml-emulator"}, "executors must be a sequence of names, got 'dml-emulator'"),
        (sliceport.compare, {"executors": 3}, "executors must be a sequence of names, got 3"),
        (sliceport.compare, {"executors": [[]]}, r"executors must be a sequence of names, got \[\] in it"),
        (rewrite, {"passes": "fold"}, "passes must be a sequence of names, got 'fold'"),
        (rewrite, {"passes": [3]}, "passes must be a sequence of names, got 3 in it"),
        (harden, {"target": 3}, "target 3 is not known; known are onnxruntime-dml"),
        (harden, {"target": []}, r"target \[\] is not known; known are onnxruntime-dml"),
        (sliceport.check, {"engine_versions": "openvino=2"}, "must map names of engines to versions, got 'openvino=2'"),
        (sliceport.check, {"engine_versions": {"openvino": 2}}, "must be a text that begins with a number, got 2"),
    ],
)
def test_names_and_options(call: Call, options: dict[str, Any], message: str, onnx_file: Path) -> None:
    assert_refused([(call, onnx_file)], message, **options)
    assert not onnx_file.with_name("o.onnx").exists()


def run_alone(code: str, *words: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_another_thread_may_be_importing_onnx_ir(onnx_file: Path) -> None:
    """The module that such a thread has put into `sys.modules` has no names yet."""
    code = """
import sys, types, onnx, sliceport
sys.modules["onnx_ir"] = types.ModuleType("onnx_ir")
for model in (sys.argv[1], onnx.load(sys.argv[1])):
    print(sliceport.lower(model, input_shapes={"z": (4, 6)}).summary["lowered"])
"""
    assert run_alone(code, str(onnx_file)).split() == ["1", "1"]


def test_first_calls_in_several_threads(onnx_file: Path) -> None:
    code = """
import sys, threading, sliceport
start, found = threading.Barrier(6), []
def lower():
    start.wait()
    try: found.append(sliceport.lower(sys.argv[1], input_shapes={"x": (4, 6)}).summary["lowered"])
    except BaseException as error: found.append(repr(error))
threads = [threading.Thread(target=lower) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found)
"""
    assert run_alone(code, str(onnx_file)) == str([1] * 6)


def test_checking_loads_neither_onnx_nor_numpy() -> None:
    code = (
        "import sys, sliceport.arguments as a; a.read_input_shapes({'x': (1, 2)}); a.read_seed(1);"
        "print([m for m in ('numpy', 'onnx', 'onnx_ir') if m in sys.modules])"
    )
    assert run_alone(code) == "[]"


def array_file(shape: str) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", *map(array_file, ["(1", "(-1,)", "(10,)", f"({10**30},)"])])
def test_damaged_file_of_an_array_is_refused(tmp_path: Path, content: bytes) -> None:
    if b"-1" in content and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("NumPy 1 reads a size of -1 as that of the whole file")
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(sliceport.UsageError, match=r"^input file '.*x\.npy' cannot be read \(.+\)\.$"):
        load_array(tmp_path / "x.npy")

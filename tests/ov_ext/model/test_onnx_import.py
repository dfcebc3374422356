"""ONNX models read with our operators give the bits that built-in operators give."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino as ov
import pytest
from amounts import some
from command_line import Invoke
from onnx import numpy_helper
from onnx_models import integers, parse
from openvino_models import MASKS, kinds

import ov_ext

MODELS = Path(__file__).parents[3] / "models"
ZOO = MODELS.parents[1] / "shared" / "zoo"
SHAPES = {"gptneox_dyn.onnx": {"x": [1, 16]}, "ts_roformer_op13.onnx": {"x": [1, 16]}} | {
    entry["file"]: entry["input_shapes"] for entry in json.loads((MODELS / "models.json").read_text())
}
WITH_FUNCTIONS = ("rule_function.onnx", "ts_functions_17.onnx")
"""Models that OpenVINO refuses, as test_lowering.py checks: it reads no functions of a domain of the model's own."""
ENDS_THE_PROCESS = ("rule_strings.onnx",)
"""With the built-in operator: the defect "strings" of `openvino.toml`."""
FILES = [*sorted(MODELS.glob("*.onnx")), *(sorted(ZOO.glob("*.onnx")) if ZOO.is_dir() else [])]
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}

BUILT_IN, OURS = ov.Core(), ov.Core()
ov_ext.register(OURS)


def random_inputs(model: ov.Model, shapes: dict[str, list[int]]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arrays = []
    for value in model.inputs:
        shape = shapes.get(value.get_any_name(), [d.get_length() if d.is_static else 8 for d in value.partial_shape])
        kind = value.get_element_type().to_dtype()
        if value.get_element_type() == ov.Type.boolean:
            arrays.append(random.random(shape) < 0.5)
        elif value.get_element_type().is_integral():
            arrays.append(random.integers(0, 3, shape).astype(kind))
        else:
            arrays.append(random.standard_normal(shape).astype(kind))
    return arrays


def fused(compiled: ov.CompiledModel) -> bool:
    """Return whether the plugin fused a rotary embedding, slices included, into an operator that rounds differently."""
    return any(node.get_rt_info()["layerType"].value == "RoPE" for node in compiled.get_runtime_model().get_ops())


def with_slices() -> list[Path]:
    """Return the models that OpenVINO reads and runs with its built-in operators."""
    return [path for path in FILES if path.name not in (*WITH_FUNCTIONS, *ENDS_THE_PROCESS)]


@pytest.mark.parametrize("path", some(with_slices()), ids=lambda path: path.stem)
def test_outputs_of_exports_are_those_with_built_in_operators(path: Path) -> None:
    theirs, ours = BUILT_IN.read_model(str(path)), OURS.read_model(str(path))
    written = [node for node in onnx.load(path).graph.node if node.op_type == "Slice"]
    assert kinds(ours).count("Slice8") >= (1 if written else 0)
    arrays = random_inputs(theirs, SHAPES.get(path.name, {}))
    compiled = BUILT_IN.compile_model(theirs, "CPU", EXACT)
    expected = compiled(arrays)
    got = OURS.compile_model(ours, "CPU", EXACT)(arrays)
    for i in range(len(theirs.outputs)):
        assert got[i].shape == expected[i].shape
        if got[i].tobytes() != expected[i].tobytes():
            assert fused(compiled)
            assert np.allclose(got[i], expected[i], rtol=1e-5, atol=1e-5)


def test_at_least_60_exports_have_slices() -> None:
    assert len(with_slices()) >= 60


def test_strings_are_sliced(core: ov.Core) -> None:
    model = core.read_model(str(MODELS / "rule_strings.onnx"))
    assert kinds(model).count("Slice8") == 1
    assert core.compile_model(model, "CPU")([np.array(list("abcd"))])[0].tolist() == ["b", "c"]


def convert(graph: str, opset: int) -> ov.Model:
    model = parse(graph, opset, ov_ext=1)
    return ov.convert_model(io.BytesIO(model.SerializeToString()), extension=ov_ext.onnx_extensions())


def slice_graph(opset: int, parameters: dict[str, list[int]], *, run_time: bool = False) -> str:
    if opset < 10:
        attributes = ", ".join(f"{name} = {values}" for name, values in parameters.items())
        return f"(float[n, 4] x) => (float[a, b] y) {{ y = Slice<{attributes}>(x) }}"
    reads = ", ".join(name * (name in parameters) for name in ("starts", "ends", "axes", "steps")).rstrip(", ")
    inputs = "".join(f", int64[{len(values)}] {name}" for name, values in parameters.items())
    given, constants = (inputs, "") if run_time else ("", integers(**parameters))
    return f"(float[n, 4] x{given}) => (float[a, b] y) <{constants}> {{ y = Slice(x, {reads}) }}"


PARAMETERS = [
    {"starts": [1], "ends": [3]},
    {"starts": [1], "ends": [3], "axes": [-1]},
    {"starts": [1, -9], "ends": [2**63 - 1, 3], "axes": [1, 0]},
]


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("opset", [1, 9, 10, 11, 13, 20])
@pytest.mark.parametrize("parameters", PARAMETERS, ids=["no axes", "axes", "two"])
def test_every_opset_is_imported(opset: int, parameters: dict[str, list[int]]) -> None:
    model = convert(slice_graph(opset, parameters), opset)
    assert kinds(model).count("Slice8") == 1
    data = np.arange(20, dtype=np.float32).reshape(5, 4)
    index = [slice(None), slice(None)]
    for axis, start, stop in zip(parameters.get("axes", [0]), parameters["starts"], parameters["ends"], strict=False):
        index[axis] = slice(start, stop)
    assert np.array_equal(BUILT_IN.compile_model(model, "CPU")([data])[0], data[tuple(index)])


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("run_time", [False, True])
def test_steps_without_axes_are_imported(run_time: bool) -> None:
    parameters = {"starts": [-1, 0], "ends": [-9, 4], "steps": [-2, 3]}
    model = convert(slice_graph(13, parameters, run_time=run_time), 13)
    data = np.arange(20, dtype=np.float32).reshape(5, 4)
    given = [np.array(listed) for listed in parameters.values()] if run_time else []
    assert np.array_equal(BUILT_IN.compile_model(model, "CPU")([data, *given])[0], data[::-2, ::3])


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("steps", [True, False])
def test_strided_slice_of_our_domain_is_imported(steps: bool) -> None:
    lists = {"begin": [0, 1, 0], "end": [0, 0, 3], **({"strides": [-1, 1, 2]} if steps else {})}
    masks: dict[str, Any] = {"begin_mask": [1, 0, 1], "end_mask": [1], "shrink_axis_mask": [0, 1]}
    attributes = ", ".join(f"{name} = {mask}" for name, mask in masks.items())
    nodes = f"y = ov_ext.StridedSlice<{attributes}>(x, {', '.join(lists)})"
    model = convert(f"(float[2, 3, 4] x) => (float[a, b] y) <{integers(**lists)}> {{ {nodes} }}", 13)
    (ours,) = [op for op in model.get_ordered_ops() if op.get_type_name() == "StridedSlice1"]
    assert {name: ours.get_attributes()[name] for name in MASKS} == {name: masks.get(name, [0]) for name in MASKS}
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected = data[::-1, 1, :3:2] if steps else data[:, 1, :3]
    assert np.array_equal(BUILT_IN.compile_model(model, "CPU")([data])[0], expected)


@pytest.mark.parametrize("engine", ["openvino", "openvino-cpu"])
def test_engine_finds_weights_in_another_file(tmp_path: Path, engine: str, invoke: Invoke) -> None:
    model = parse("(float[1, 64] x) => (float[65, 64] y) { y = Concat <axis = 0> (x, w) }", 17)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert "outputs: 1 equal" in invoke("diff", path, "--on", engine).out

"""Graphs that `diff` cuts and writes: names and texts stay usable."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import onnx
import pytest
from onnx_models import parse

from onnx_ops.model.check import check_proto
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.onnx_graph import OnnxGraph, to_tensor
from onnx_ops.running.runnable import read_complete_model
from sliceport.errors import ModelError
from sliceport.sandbox import progress
from sliceport.search.diff import diff

STRIDED = "(float[8] x) => (float[m] y) <int64[1] b = {1}, int64[1] e = {5}> { y = ov_ext.StridedSlice(x, b, e) }"


def test_anonymous_model_with_a_strided_slice_runs() -> None:
    complete = read_complete_model(parse(STRIDED, 17, ov_ext=1))
    graph = OnnxGraph(complete.proto).anonymised("names", 0)
    (name,) = graph.inputs
    (value,) = onnxruntime_cpu.side().run(graph.whole(), {name: np.arange(8, dtype=np.float32)}).values()
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["", "names", "weights"])
def test_written_cuts_share_a_weight_from_another_file(tmp_path: Path, mode: str) -> None:
    proto = parse("(float[2, 64] x) => (float[2, 64] z) { y = MatMul(x, w)  z = Abs(y) }", 17)
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    complete = read_complete_model(tmp_path / "m.onnx")
    graph = OnnxGraph(complete.proto, complete.model, complete.data_folder)
    graph = graph.anonymised(mode, 0) if mode else graph
    folder = tmp_path / "cuts"
    folder.mkdir()
    names = graph.write_cuts([graph.whole(), graph.whole()], folder)
    assert {file.name for file in folder.iterdir()} == {"00.onnx", "01.onnx", "weights.bin"}
    assert (folder / "weights.bin").stat().st_size == weight.nbytes
    (written,) = (onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(folder / names[1]).graph.initializer)
    assert written.shape == weight.shape
    assert np.array_equal(written, weight) == (mode != "weights")
    assert np.abs(written).max() <= np.abs(weight).max()


def test_text_that_is_not_utf8_is_written_as_it_was() -> None:
    tensor = to_tensor("x", np.array(["a\udcff", b"b\xff"], object))
    assert isinstance(tensor, onnx.TensorProto)
    assert list(tensor.string_data) == [b"a\xff", b"b\xff"]


def test_anonymous_weight_keeps_its_infinities() -> None:
    proto = parse("(float[4] x) => (float[4] y) { y = Add(x, w) }", 17)
    weight = np.array([1, -np.inf, 2, np.nan], np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    graph = onnx.ModelProto.FromString(OnnxGraph(proto).anonymised("weights", 0).whole().data).graph
    drawn = onnx.numpy_helper.to_array(graph.initializer[0])
    assert np.array_equal(drawn[[1, 3]], weight[[1, 3]], equal_nan=True)
    assert ((drawn[[0, 2]] >= 1) & (drawn[[0, 2]] <= 2)).all()


def test_anonymous_model_has_other_value_floats() -> None:
    proto = parse("(float[3] x) => (float[3] y) { w = Constant<value_floats = [1.0, 2.0, 4.0]>()  y = Add(x, w) }", 17)
    anonymous = OnnxGraph(proto).anonymised("weights", 0)
    (value,) = onnxruntime_cpu.side().run(anonymous.whole(), {anonymous.inputs[0]: np.zeros(3, np.float32)}).values()
    assert isinstance(value, np.ndarray)
    assert len({1.0, 2.0, 4.0} & {*value.tolist()}) < 3


@pytest.mark.parametrize("constant", ["", " = float[4] {1.0, 1.0, 2.0, 3.0}", "_floats = [1.0, 1.0, 2.0, 3.0]"])
def test_anonymous_resize_keeps_its_scales(constant: str) -> None:
    scales = "" if constant else "<float[4] s = {1.0, 1.0, 2.0, 3.0}>"
    node = f"s = Constant<value{constant}>()" if constant else ""
    graph = f'(float[1,1,2,2] x) => (float[1,1,4,6] y) {scales} {{ {node} y = Resize(x, "", s) }}'
    anonymous = OnnxGraph(parse(graph, 17)).anonymised("weights", 0)
    check_proto(onnx.ModelProto.FromString(anonymous.whole().data))
    values = onnxruntime_cpu.side().run(anonymous.whole(), {anonymous.inputs[0]: np.ones((1, 1, 2, 2), np.float32)})
    assert [value.shape for value in values.values() if isinstance(value, np.ndarray)] == [(1, 1, 4, 6)]


def test_string_constant_of_a_loop_is_passed_as_text() -> None:
    body = "b (int64 i, bool c, string[1] s) => (bool c, string[1] s) { }"
    nodes = f'k = Constant<value_strings = ["ä"]>()  y = Loop (n, "", k) <body = {body}>'
    graph = OnnxGraph(parse(f"(float x) => (string[1] y) <int64 n = {{1}}> {{ {nodes} }}", 17))
    values = next(iter(graph.bodies(0, {}, onnxruntime_cpu.side().run))).inputs
    assert values["s"].tolist() == ["ä"]


def test_scan_without_states_runs_no_body() -> None:
    body = "b (float[2] v) => (float[2] w) { w = Neg(v) }"
    proto = parse(f"(float[3, 2] x) => (float[3, 2] y) {{ y = Scan<num_scan_inputs = 1, body = {body}>(x) }}", 17)
    assert (
        len(list(OnnxGraph(proto).bodies(0, {"x": np.ones((3, 2), np.float32)}, MagicMock(side_effect=AssertionError))))
        == 3
    )


def test_whole_model_has_each_output_once() -> None:
    proto = parse("(float[3] x) => (float[3] a, float[3] a, float[3] b) { a = Neg(x) b = Abs(x) }", 17)
    written = onnx.ModelProto.FromString(OnnxGraph(proto).whole().data)
    assert [value.name for value in written.graph.output] == ["a", "b"]


def test_open_size_of_an_empty_input_stays_open() -> None:
    proto = parse("(float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }", 17)
    cut = OnnxGraph(proto).cut([0], ["y"], {"x": np.zeros((0, 3), np.float32)}, {})
    dims = onnx.ModelProto.FromString(cut.data).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["n", 3]


def test_input_without_a_shape_has_open_sizes() -> None:
    proto = parse("(float x) => (float y) { y = Neg(x) }", 17)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.ClearField("shape")
    cut = OnnxGraph(proto).cut([0], ["y"], {"x": np.ones((2, 3), np.float32)}, {})
    dims = onnx.ModelProto.FromString(cut.data).graph.input[0].type.tensor_type.shape.dim
    assert not any(dim.HasField("dim_value") for dim in dims)


def test_zip_map_that_writes_two_outputs_of_the_model_is_left_out() -> None:
    nodes = "p = Neg(x)  maps = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1, 2]>(p)"
    proto = parse(f"(float[2, 3] x) => (maps, maps) {{ {nodes} }}", **{"ai.onnx.ml": 3})
    assert [value.name for value in read_complete_model(proto).proto.graph.output] == ["p", "p"]


def test_input_of_a_zip_map_is_compared(tmp_path: Path) -> None:
    """scikit-learn's exports return a sequence of maps from classes to probabilities."""
    nodes = "[neg] p = Neg (x)  [zip] maps = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (p)  [exp] e = Exp (p)"
    proto = parse(f"(float[2, 3] x) => (float[2, 3] e, float maps) {{ {nodes} }}", **{"ai.onnx.ml": 3})
    maps = proto.graph.output[1].type.sequence_type.elem_type.map_type
    maps.key_type, maps.value_type.tensor_type.elem_type = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    onnx.save(proto, tmp_path / "zip.onnx")
    said: list[str] = []
    with progress.listen_to_progress(announcement=said.append):
        report = diff(tmp_path / "zip.onnx", on="onnxruntime-cpu")
    assert [(output.name, output.status) for output in report.outputs] == [("e", "equal"), ("p", "equal")]
    assert said == ["ZipMap 'zip' is left out: its input 'p' is compared in place of 'maps', which is not a tensor"]


def test_zip_map_with_two_inputs_is_left_to_onnxruntime(tmp_path: Path) -> None:
    node = "maps = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (x, x)"
    onnx.save(parse(f"(float[2, 3] x) => (float[2, 3] maps) {{ {node} }}", **{"ai.onnx.ml": 3}), tmp_path / "zip.onnx")
    with pytest.raises(ModelError, match="neither engine runs the model: .*ZipMap.* has input size 2"):
        diff(tmp_path / "zip.onnx", on="onnxruntime-cpu")


def test_zip_map_of_another_domain_stays() -> None:
    proto = parse("(float[2, 3] x) => (float[2, 3] maps) { maps = custom.ZipMap(x) }", custom=1)
    assert [node.op_type for node in read_complete_model(proto).proto.graph.node] == ["ZipMap"]


def test_zip_map_whose_output_a_node_reads_stays() -> None:
    nodes = "p = Neg(x)  maps = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1, 2]>(p)  y = custom.First(maps)"
    proto = parse(f"(float[2, 3] x) => (float maps, float y) {{ {nodes} }}", **{"ai.onnx.ml": 3, "custom": 1})
    proto.graph.output[0].ClearField("type")
    assert "ZipMap" in [node.op_type for node in read_complete_model(proto).proto.graph.node]


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_with_a_reduction_does_not_only_move_elements(reduction: str) -> None:
    node = f'y = ScatterND <reduction = "{reduction}"> (x, i, u)'
    proto = parse(f"(float[3] x, int64[1, 1] i, float[1] u) => (float[3] y) {{ {node} }}", 17)
    assert [node.moves for node in OnnxGraph(proto).nodes] == [reduction == "none"]

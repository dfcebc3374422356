"""Whole models on onnxruntime's DirectML provider: what ran where, what differs, and which node is behind it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx.utils
import pytest
from amounts import long_only
from command_line import Invoke
from onnx_models import parse, save
from platforms import POSIX, require_shader_model_6
from processes import children, host_of
from running import as_array

import sliceport
from sliceport import device
from sliceport.defects.table import find_defect
from sliceport.errors import ModelError
from sliceport.search.report import DiffReport
from sliceport.verdict.difference import Tolerance

ONE_PART_GATES_ANOTHER = find_defect("one part gates another")

pytestmark = pytest.mark.usefixtures("provider_kept")


MOVING = """(float[4,6] x) => (y)
    <int64[1] first = {5}, int64[1] end = {-7}, int64[1] one = {1}, int64[1] back = {-1}> {
    s = Slice (x, first, end, one, back)  a, b = Split<axis = 0, num_outputs = 2> (s)
    [join] y = Concat<axis = 0> (b, a)
}"""
SPECTRUM_AND_GLU = """(float[1,16,1] w, float[2,4] x) => (v, y) {
    [spectrum] v = DFT (w)  [halves] a, b = Split<axis = 1, num_outputs = 2> (x)  s = Sigmoid (b)  y = Mul (a, s)
}"""
CHOICE = """(float[n,2] x) => (y) <bool yes = {1}> {
    y = If (yes) <then_branch = a () => (t) { t = Identity (x) }, else_branch = b () => (e) { e = Neg (x) }>
}"""


def run(path: Path, **options: Any) -> DiffReport:
    return sliceport.diff(path, on="onnxruntime-dml", **options)


def run_text(graph: str, folder: Path, **options: Any) -> DiffReport:
    return run(save(graph, folder / "model.onnx"), **options)


def test_nodes_that_move_elements_are_equal_bit_for_bit_and_run_on_directml(
    directml: device.Device, tmp_path: Path
) -> None:
    report = run_text(MOVING, tmp_path)
    (output,) = report.outputs
    assert (output.status, output.absolute, output.tolerance) == ("equal", 0.0, Tolerance())
    assert {node.provider for node in report.places} == {"DmlExecutionProvider"}
    assert [node.name for node in report.places] == ["s", "a", "join"]  # a node without a name has its first output's
    assert as_array(report.values["y"]).shape == (4, 6)


def test_an_operator_that_this_adapter_cannot_compile_is_told_from_a_refusal(
    directml: device.Device, tmp_path: Path
) -> None:
    path = save("(float[1,16,1] x) => (y) { [spectrum] y = DFT (x) }", tmp_path / "model.onnx", 20)
    (part,) = run(path).parts
    assert (part.case.culprit.name, part.case.failure.kind) == ("spectrum", "adapter")


def test_refusal_of_another_node_hides_no_known_defect(directml: device.Device, tmp_path: Path) -> None:
    require_shader_model_6(directml)
    report = run(save(SPECTRUM_AND_GLU, tmp_path / "model.onnx", 20))
    assert [part.case.culprit.name for part in report.parts] == ["spectrum"]
    known = f"the model also has a known defect of onnxruntime-dml: {ONE_PART_GATES_ANOTHER.id} ("
    assert report.notes[0].startswith(known)


def test_open_shapes_and_control_flow_run_on_given_inputs(directml: device.Device, tmp_path: Path) -> None:
    path = save(CHOICE, tmp_path / "model.onnx")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    report = run(path, inputs={"x": x})
    assert report.is_equal
    assert np.array_equal(as_array(report.values["y"]), x)


def test_scalars_stay_scalars(directml: device.Device, tmp_path: Path) -> None:
    report = run_text("(float x) => (y) { y = Identity (x) }", tmp_path)
    assert report.is_equal
    assert as_array(report.values["y"]).shape == ()


def test_the_command_line_writes_what_it_prints(directml: device.Device, tmp_path: Path, invoke: Invoke) -> None:
    path, out = save(MOVING, tmp_path / "model.onnx"), tmp_path / "out"
    words = ["diff", str(path), "--on", "onnxruntime-dml", "-o", str(out)]
    printed = json.loads(invoke(*words, "--format", "json").out)
    report = json.loads((out / "report.json").read_text())
    (output,) = report["outputs"]
    (file,) = output.pop("files")
    assert np.load(out / file).shape == (4, 6)
    assert report == printed
    assert "exists; give another folder or --overwrite" in invoke(*words, code=2).err
    text = invoke(*words, "--overwrite").out
    assert "DmlExecutionProvider: 1 Slice, 1 Split, 1 Concat" in text
    assert text.splitlines()[-1].endswith("outputs: 1 equal")


def weights_outside(folder: Path, count: int = 5000) -> Path:
    """Save a model that adds large weights of its data file, and multiplies by others behind them."""
    nodes = "{ [sum] s = Add (x, a)  [product] y = Mul (s, b) }"
    model = parse(f"(float[{count}] x) => (float[{count}] y) {nodes}")
    for name, first in (("a", 1), ("b", 7)):
        array = np.arange(first, first + count, dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    return folder / "m.onnx"


def test_weights_are_read_from_their_file(directml: device.Device, tmp_path: Path) -> None:
    require_shader_model_6(directml)
    path = weights_outside(tmp_path)
    report = run(path, inputs={"x": np.arange(5000, dtype=np.float32)})
    assert report.is_equal, report.sentences
    assert as_array(report.values["y"])[:3].tolist() == [7, 24, 45]
    assert [node.op_type for node in report.places] == ["Add", "Mul"]


def test_one_session_computes_the_outputs_and_places_the_nodes(
    directml: device.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session uploads all weights."""
    requests: list[dict[str, Any]] = []
    ask = device.Device._ask_once

    def record(self: device.Device, request: dict[str, Any], *rest: Any) -> Any:
        requests.append(request)
        return ask(self, request, *rest)

    monkeypatch.setattr(device.Device, "_ask_once", record)
    report = run_text("(float[17,4,4] x) => (y, z) { n = Neg (x)  y = Abs (n)  z = Det (x) }", tmp_path)
    assert report.placement == ["CPUExecutionProvider: 1 Det", "DmlExecutionProvider: 1 Neg, 1 Abs"]
    assert [request["do"] for request in requests].count("onnx") == 1


def test_weights_that_cannot_be_read_are_named(directml: device.Device, tmp_path: Path) -> None:
    path = weights_outside(tmp_path)
    os.truncate(tmp_path / "m.bin", 30000)
    with pytest.raises(ModelError, match=r"m\.bin' ends before byte 4\d{4}"):
        run(path)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(ModelError, match=r"m\.bin' cannot be read \(No such file"):
        run(path)


@POSIX
def test_data_file_that_cannot_be_mapped_leaves_nothing_behind(directml: device.Device, tmp_path: Path) -> None:
    model = parse("(float[4] x) => (float[4] y) { y = Add (x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(1, 5, dtype=np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "other.bin").write_bytes(bytes(16))
    (tmp_path / "empty.bin").touch()
    request = {"do": "facts", "levels": [0x1000], "files": [{"size": 2**62}, {"size": 16}]}
    with pytest.raises(device.CallFailed, match="mmap failed"):
        directml._ask(request, files=[str(tmp_path / "other.bin")] * 2)
    directml._ask(request | {"files": [{"size": 0}]}, files=[str(tmp_path / "empty.bin")])
    weights = {"w": device.StoredTensor(str(tmp_path / "w.bin"), 0, 16, 1, (4,))}
    (y,) = directml.run_onnx((tmp_path / "m.onnx").read_bytes(), {"x": np.zeros(4, np.float32)}, ["y"], weights=weights)
    assert y.tolist() == [1, 2, 3, 4]
    descriptors = (fd for pid in children(host_of(directml)) for fd in Path(f"/proc/{pid}/fd").iterdir())
    assert not [fd for fd in descriptors if os.path.realpath(fd).startswith(str(tmp_path))]


@long_only
def test_model_that_ends_the_host_is_explained(directml: device.Device, models: Path, tmp_path: Path) -> None:
    """XLNet's relative attention: the provider crashes on an Einsum of open sizes.

    It reads memory that is not its own, so that one of many runs does not crash, and computes the right values.
    """
    require_shader_model_6(directml)
    path, end = tmp_path / "attention.onnx", "/m/layer.0/rel_attn/Einsum_7_output_0"
    onnx.utils.extract_model(models / "ts_xlnet_dyn_12.onnx", path, ["x"], [end], check_model=False)
    reports = (run(path, input_shapes={"x": (1, 16)}) for _ in range(4))
    (part,) = next(filter(None, (report.parts for report in reports)))
    assert part.case.culprit.op_type == "Einsum"
    assert "the DirectML host program ended" in part.case.failure.message


def test_real_export_runs_within_the_tolerance(directml: device.Device, zoo: Path) -> None:
    report = run(zoo / "ts_roformer_op13.onnx", input_shapes={"x": (1, 8)})
    assert report.is_equal
    assert report.outputs[0].relative < 2e-6


@pytest.mark.parametrize("name", ["ts_focus_10", "ts_boxes_10", "dynamo_window_shift"])
def test_real_networks_are_run(directml: device.Device, models: Path, name: str) -> None:
    """Graphs that end the host program with descriptor heaps smaller than vkd3d's own."""
    report = run(models / f"{name}.onnx")
    assert report.is_equal, report.sentences
    assert {node.provider for node in report.places} == {"DmlExecutionProvider"}

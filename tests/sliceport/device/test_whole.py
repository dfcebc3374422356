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

from onnx_ops.verify.run_model import run_model
from sliceport import device
from sliceport.defects.onnxruntime import ALLOWZERO, ONE_PART_GATES_ANOTHER
from sliceport.engines.model_run import ModelRun
from sliceport.errors import ModelError, UsageError

pytestmark = pytest.mark.usefixtures("provider_kept")


MOVING = """(float[4,6] x) => (y)
    <int64[1] first = {5}, int64[1] end = {-7}, int64[1] one = {1}, int64[1] back = {-1}> {
    s = Slice (x, first, end, one, back)  a, b = Split<axis = 0, num_outputs = 2> (s)
    [join] y = Concat<axis = 0> (b, a)
}"""
GLU = """(float[2,4] x) => (y) {
    [halves] a, b = Split<axis = 1, num_outputs = 2> (x)  [gate] s = Sigmoid (b)  [product] y = Mul (a, s)
}"""
SPECTRUM_AND_GLU = """(float[1,16,1] w, float[2,4] x) => (v, y) {
    [spectrum] v = DFT (w)  [halves] a, b = Split<axis = 1, num_outputs = 2> (x)  s = Sigmoid (b)  y = Mul (a, s)
}"""
VIEW = """(float[2,4] x) => (y) <int64[2] sizes = {4, -1}> {
    [copy] i = Identity (x)  [view] y = Reshape<allowzero = 1> (i, sizes)
}"""
CHOICE = """(float[n,2] x) => (y) <bool yes = {1}> {
    y = If (yes) <then_branch = a () => (t) { t = Identity (x) }, else_branch = b () => (e) { e = Neg (x) }>
}"""


def run_text(graph: str, folder: Path, **options: Any) -> ModelRun:
    return run_model(save(graph, folder / "model.onnx"), against=True, **options)


def test_nodes_that_move_elements_are_equal_bit_for_bit_and_run_on_directml(
    directml: device.Device, tmp_path: Path
) -> None:
    run = run_text(MOVING, tmp_path)
    (output,) = run.outputs
    assert (output.status, output.difference, output.tolerance) == ("equal", 0.0, 0.0)
    assert run.is_clean
    assert {node.provider for node in run.nodes} == {"DmlExecutionProvider"}
    assert [node.name for node in run.nodes] == ["s", "a", "join"]  # those without a name go by their first output's
    assert run.arrays["y"].shape == (4, 6)


def test_glu_by_split_differs_and_the_node_is_named(directml: device.Device, tmp_path: Path) -> None:
    """onnxruntime 32146."""
    run = run_text(GLU, tmp_path)
    assert run.outputs[0].status == "different"
    (finding,) = run.findings
    assert (finding.kind, finding.node, finding.op_type) == ("different", "product", "Mul")
    assert "first node on the way to output 'y'" in finding.message
    known = f"; Split 'halves' has a known defect of onnxruntime-dml: {ONE_PART_GATES_ANOTHER.id} ("
    assert finding.message.endswith(f"{known}{ONE_PART_GATES_ANOTHER.reason}).")


def test_a_reshape_that_the_provider_refuses_is_named(directml: device.Device, tmp_path: Path) -> None:
    """As torch's dynamo exporter writes it."""
    run = run_text(VIEW, tmp_path)
    (finding,) = run.findings
    assert (finding.kind, finding.node, finding.op_type) == ("refused", "view", "Reshape")
    assert "80070057 Invalid parameter" in finding.message
    assert finding.message.endswith(
        f"; Reshape 'view' has a known defect of onnxruntime-dml: {ALLOWZERO.id} ({ALLOWZERO.reason})."
    )
    assert not run.outputs


def test_an_operator_that_this_adapter_cannot_compile_is_one_sentence(
    directml: device.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save("(float[1,16,1] x) => (y) { [spectrum] y = DFT (x) }", tmp_path / "model.onnx", 20)
    run = run_model(path, against=True)
    (finding,) = run.findings
    assert finding.message.startswith("DFT 'spectrum' cannot be compiled by this adapter (")
    (finding,) = run_model(path).findings
    assert "refuses the model" in finding.message
    assert "against=True finds the nodes" in finding.message


def test_refusal_of_another_node_hides_no_known_defect(directml: device.Device, tmp_path: Path) -> None:
    require_shader_model_6(directml)
    path = save(SPECTRUM_AND_GLU, tmp_path / "model.onnx", 20)
    for is_compared in (False, True):
        refusal, defect = run_model(path, against=is_compared).findings
        assert (refusal.kind, defect.kind, defect.node) == ("refused", "defect", "halves")
        assert defect.message.startswith("Split 'halves' has a known defect of onnxruntime-dml: ")
        assert defect.defects == (ONE_PART_GATES_ANOTHER.id,)


def test_open_shapes_and_control_flow_run_on_given_inputs(directml: device.Device, tmp_path: Path) -> None:
    path = save(CHOICE, tmp_path / "model.onnx")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    run = run_model(path, inputs={"x": x}, against=True)
    assert run.is_clean
    assert np.array_equal(run.arrays["y"], x)
    with pytest.raises(UsageError, match="the shape of input 'x' is open"):
        run_model(path)


def test_scalars_stay_scalars(directml: device.Device, tmp_path: Path) -> None:
    run = run_text("(float x) => (y) { y = Identity (x) }", tmp_path)
    assert run.is_clean
    assert run.arrays["y"].shape == ()


def test_the_command_line_writes_what_it_prints(directml: device.Device, tmp_path: Path, invoke: Invoke) -> None:
    path, out = save(MOVING, tmp_path / "model.onnx"), tmp_path / "out"
    words = ["directml", "run", str(path), "--against", "onnxruntime-cpu", "-o", str(out)]
    printed = json.loads(invoke(*words, "--format", "json").out)
    report = json.loads((out / "report.json").read_text())
    (output,) = report["outputs"]
    assert np.load(out / output.pop("file")).shape == (4, 6)
    assert report == printed
    assert "exists; give another folder or --overwrite" in invoke(*words, code=2).err
    text = invoke(*words, "--overwrite").out
    assert "DmlExecutionProvider: 1 Slice, 1 Split, 1 Concat" in text
    assert text.splitlines()[-1].endswith("3 nodes; outputs: 1 equal")


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
    run = run_model(path, against=True, inputs={"x": np.arange(5000, dtype=np.float32)})
    assert run.is_clean, run.findings
    assert run.arrays["y"][:3].tolist() == [7, 24, 45]
    assert [node.op_type for node in run.nodes] == ["Add", "Mul"]


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
    run = run_model(save("(float[4,4] x) => (y, z) { n = Neg (x)  y = Abs (n)  z = Det (x) }", tmp_path / "m.onnx"))
    providers = {node.op_type: node.provider.removesuffix("ExecutionProvider") for node in run.nodes}
    assert providers == {"Neg": "Dml", "Abs": "Dml", "Det": "CPU"}
    assert [request["do"] for request in requests] == ["facts", "onnx"]


def test_weights_that_cannot_be_read_are_named(directml: device.Device, tmp_path: Path) -> None:
    path = weights_outside(tmp_path)
    os.truncate(tmp_path / "m.bin", 30000)
    with pytest.raises(device.DeviceError, match=r"m\.bin' ends before byte 4\d{4}"):
        run_model(path)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(device.DeviceError, match=r"m\.bin' cannot be read \(No such file"):
        run_model(path)


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


def test_bad_input_is_named(directml: device.Device, tmp_path: Path, invoke: Invoke) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        run_model(tmp_path / "nothing.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(ModelError, match="not an ONNX model"):
        run_model(tmp_path / "text.onnx")
    printed = invoke("directml", "run", save(MOVING, tmp_path / "model.onnx"), "--seed", "-1", code=2)
    assert "the seed must not be negative" in printed.err


@long_only
def test_model_that_ends_the_host_is_explained(directml: device.Device, models: Path, tmp_path: Path) -> None:
    """XLNet's relative attention: the provider crashes on an Einsum of open sizes.

    It reads memory that is not its own, so that one of many runs does not crash, and computes the right values.
    """
    require_shader_model_6(directml)
    path, end = tmp_path / "attention.onnx", "/m/layer.0/rel_attn/Einsum_7_output_0"
    onnx.utils.extract_model(models / "ts_xlnet_dyn_12.onnx", path, ["x"], [end], check_model=False)
    runs = (run_model(path, against=True, input_shapes={"x": (1, 16)}) for _ in range(4))
    (finding,) = next(filter(None, (run.findings for run in runs)))
    assert (finding.kind, finding.op_type) == ("refused", "Einsum")
    assert "is refused by the DirectML provider (the DirectML host program ended" in finding.message


def test_real_export_runs_within_the_tolerance(directml: device.Device, zoo: Path) -> None:
    run = run_model(zoo / "ts_roformer_op13.onnx", against=True, input_shapes={"x": (1, 8)})
    assert run.is_clean
    assert run.outputs[0].difference is not None
    assert run.outputs[0].difference < 2e-6


@pytest.mark.parametrize("name", ["ts_focus_10", "ts_boxes_10", "dynamo_window_shift"])
def test_real_networks_are_run(directml: device.Device, models: Path, name: str) -> None:
    """Graphs that end the host program with descriptor heaps smaller than vkd3d's own."""
    run = run_model(models / f"{name}.onnx", against=True)
    assert run.is_clean, run.findings
    assert {node.provider for node in run.nodes} == {"DmlExecutionProvider"}

"""The host program of Windows, on any platform: its frames, its refusals, and the provider of each node."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from onnx_models import parse

from sliceport.device import client, protocol, windows_host
from sliceport.device.client import Device
from sliceport.device.errors import CallFailed
from sliceport.device.install import _EXAMPLE
from sliceport.device.session import NodeRun, StoredTensor
from sliceport.device.windows_host import Host

ort = pytest.importorskip("onnxruntime")

NO_PROVIDER = pytest.mark.skipif(
    "DmlExecutionProvider" in ort.get_available_providers(), reason="this onnxruntime has the provider"
)


class FakeDevice:
    adapter = "a card"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.data = b""

    def run(self, _key: bytes, _operator: int, data: bytes, sizes: list[int], _offset: int) -> bytes:
        if self.error is not None:
            raise self.error
        self.data = data
        return data[sizes[0] :]


def host_with(device: FakeDevice) -> Host:
    host = Host(Path(), 0)
    host.__dict__["_device"] = device
    return host


def ask(host: Host, request: dict[str, Any], payload: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Send one request through the frames, and return the answer."""
    answers = io.BytesIO()
    windows_host.serve(host, io.BytesIO(protocol.encode_head(request, len(payload)) + payload), answers)
    header_size, payload_size = protocol.PREFIX.unpack(answers.getvalue()[: protocol.PREFIX.size])
    body = answers.getvalue()[protocol.PREFIX.size :]
    assert len(body) == header_size + payload_size
    return json.loads(body[:header_size]), body[header_size:]


def run_request(payload: bytes) -> tuple[dict[str, Any], bytes]:
    from sliceport.directml.abi import Image

    image = Image(_EXAMPLE)
    operator = {"size": len(image.data), "pointers": image.pointers, "desc": image.desc}
    request = {"do": "run", "operator": operator, "input": 64, "offset": 0, "outputs": [16]}
    return request, bytes(image.data) + payload


def test_run_returns_the_outputs_buffers() -> None:
    device = FakeDevice()
    buffers = bytes(range(80))
    assert ask(host_with(device), *run_request(buffers)) == ({}, buffers[64:])
    assert device.data == buffers


@pytest.mark.parametrize("request_header", [{"do": "sing"}, {"do": "run"}, {}])
def test_request_without_sense_is_refused(request_header: dict[str, Any]) -> None:
    header, _ = ask(host_with(FakeDevice()), request_header)
    assert (header["error"]["call"], header["error"]["hresult"]) == ("request", 0x80070057)
    assert header["error"]["message"].startswith("KeyError: ")


LOST, FULL = ("BindInputs", 0x887A0005, ""), ("new", 0x8007000E, "out of memory")


@pytest.mark.parametrize(("error", "answer"), [(CallFailed(*LOST), LOST), (MemoryError(), FULL)])
def test_device_is_replaced_after_a_failed_run(error: Exception, answer: tuple[str, int, str]) -> None:
    host = host_with(FakeDevice(error))
    header, _ = ask(host, *run_request(bytes(80)))
    assert header == {"error": dict(zip(("call", "hresult", "message"), answer, strict=True))}
    assert "_device" not in host.__dict__


def onnx_error(kind: str = "float", element: int = 1, **change: Any) -> dict[str, Any]:
    """Return the error with which the host answers the request to run a Cast."""
    data = parse(f"(float[2] x) => ({kind}[2] y) {{ y = Cast <to={element}> (x) }}", 21).SerializeToString()
    inputs = [{"name": "x", "shape": [2], "element": 1, "size": 8}]
    request = {"do": "onnx", "model_size": len(data), "files": [], "weights": [], "inputs": inputs, "outputs": ["y"]}
    header, _ = ask(host_with(FakeDevice()), request | {"config": {}} | change, data + bytes(8))
    error: dict[str, Any] = header["error"]
    return error


CPU_HOST = """
import sys
from pathlib import Path
import onnxruntime
from sliceport.device import windows_host
windows_host._PROVIDER = "CPUExecutionProvider"
windows_host.main()
"""
"""The host program, with onnxruntime's CPU provider in the place of that for DirectML."""


def test_weights_are_read_from_their_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    weights = np.arange(2**18, dtype=np.float32)
    path = tmp_path / "other.bin"
    path.write_bytes(bytes(8) + weights.tobytes())
    model = parse("(float[n] x) => (float[n] y) { [sum] y = Add (x, w) }")
    weight = onnx.TensorProto(name="w", data_type=1, dims=weights.shape, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "data/w.bin"), ("offset", 8), ("length", weights.nbytes)):
        weight.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(weight)
    x = np.linspace(1, 2, weights.size, dtype=np.float32)
    monkeypatch.setattr(client, "sys", SimpleNamespace(platform="win32"))  # payloads are in the pipe, as on Windows
    with Device([sys.executable, "-c", CPU_HOST, "folder"], 60) as device:
        stored = {"w": StoredTensor(str(path), 8, weights.nbytes, 1, weights.shape)}
        (y,), nodes = device.trace_onnx(model.SerializeToString(), {"x": x}, ["y"], weights=stored)
    assert np.array_equal(y, x + weights)
    assert nodes == [NodeRun("sum", "Add", "CPUExecutionProvider")]


@pytest.mark.parametrize(("change", "call"), [({"model_size": 3}, "CreateSession"), ({"outputs": ["z"]}, "Run")])
def test_failure_names_the_call(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], call: str) -> None:
    monkeypatch.setattr(windows_host, "_PROVIDER", "CPUExecutionProvider")
    assert onnx_error(**change)["call"] == call


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("Status Message: std::bad_alloc")])
def test_run_that_lacks_memory_has_its_own_number(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(windows_host, "_PROVIDER", "CPUExecutionProvider")
    monkeypatch.setattr(ort, "InferenceSession", Mock(side_effect=error))
    assert onnx_error()["hresult"] == 0x8007000E


@pytest.mark.parametrize("output", [("int4", 22), ("string", 8)])
def test_output_whose_elements_cannot_be_sent_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, output: tuple[str, int]
) -> None:
    monkeypatch.setattr(windows_host, "_PROVIDER", "CPUExecutionProvider")
    assert onnx_error(*output)["message"] == "an output's element type cannot be sent"


@NO_PROVIDER
def test_missing_provider_is_named() -> None:
    message = "the installed onnxruntime has no DirectML provider; run: pip install onnxruntime-directml"
    assert onnx_error()["message"] == message


@NO_PROVIDER
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_session_that_runs_on_the_cpu_alone_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["DmlExecutionProvider", "CPUExecutionProvider"])
    assert onnx_error()["message"] == "the DirectML provider does not start on adapter 0"


def test_missing_onnxruntime_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    error = onnx_error()
    assert error["call"] == "import onnxruntime"
    assert error["message"].endswith("; run: pip install onnxruntime-directml")

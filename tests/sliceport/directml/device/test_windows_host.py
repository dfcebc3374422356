"""The host program of Windows, on any platform: its frames, its refusals, and the provider of each node."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info

from sliceport.directml.device import protocol, windows_host
from sliceport.directml.device.errors import CallFailed
from sliceport.directml.device.install import _EXAMPLE
from sliceport.directml.device.profile import NodeRun, read_profile
from sliceport.directml.device.windows_host import Host

ort = pytest.importorskip("onnxruntime")

NO_PROVIDER = pytest.mark.skipif(
    "DmlExecutionProvider" in ort.get_available_providers(), reason="this onnxruntime has the provider"
)


class FakeDevice:
    adapter = "a card"

    def __init__(self, *, removed: bool = False) -> None:
        self.removed = removed
        self.data = b""

    def run(self, _key: bytes, _operator: int, data: bytes, sizes: list[int], _offset: int) -> bytes:
        if self.removed:
            raise CallFailed("BindInputs", 0x887A0005, "")
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


@pytest.mark.parametrize("request_header", [{"do": "sing"}, {"do": "run"}])
def test_request_without_sense_is_refused(request_header: dict[str, Any]) -> None:
    header, _ = ask(host_with(FakeDevice()), request_header)
    assert (header["error"]["call"], header["error"]["hresult"]) == ("request", 0x80070057)


def test_lost_device_is_replaced() -> None:
    device = FakeDevice(removed=True)
    host = host_with(device)
    header, _ = ask(host, *run_request(bytes(80)))
    assert header == {"error": {"call": "BindInputs", "hresult": 0x887A0005, "message": ""}}
    assert "_device" not in host.__dict__


def model() -> bytes:
    sizes = [2]
    value = [make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes) for name in "xy"]
    graph = make_graph([make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
    made = make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def onnx_request() -> tuple[dict[str, Any], bytes]:
    data = model()
    inputs = [{"name": "x", "shape": [2], "element": 1, "size": 8}]
    request = {"do": "onnx", "model_size": len(data), "weights_size": 0, "inputs": inputs, "outputs": ["y"]}
    return request | {"config": {}, "trace": False}, data + bytes(8)


@NO_PROVIDER
def test_missing_provider_is_named() -> None:
    header, _ = ask(host_with(FakeDevice()), *onnx_request())
    assert header["error"]["message"] == (
        "the installed onnxruntime has no DirectML provider; run: pip install onnxruntime-directml"
    )


@NO_PROVIDER
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_session_that_runs_on_the_cpu_alone_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["DmlExecutionProvider", "CPUExecutionProvider"])
    header, _ = ask(host_with(FakeDevice()), *onnx_request())
    assert header["error"]["message"] == "the DirectML provider does not start on adapter 0"


def test_profile_names_the_provider_of_each_node() -> None:
    def event(name: str, category: str = "Node", **args: str) -> dict[str, Any]:
        return {"cat": category, "name": name, "args": args}

    on_cpu = event("crop_kernel_time", op_name="Slice", provider="CPUExecutionProvider")
    events = [event("model_run", "Session"), event("crop_fence_before", op_name="Slice"), on_cpu]
    assert read_profile(json.dumps(events).encode()) == [NodeRun("crop", "Slice", "CPUExecutionProvider")]

"""A failure of the device that comes once is told from one that stays."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Invoke, Printed
from onnx_models import save
from processes import host_of

from onnx_ops.running import directml_provider
from sliceport import device
from sliceport.device import CallFailed, DeviceError, HostDied, HostTimedOut, client
from sliceport.device.client import Device

HOST = """
import json, os, struct, sys, time
state, plan = sys.argv[1], json.loads(sys.argv[2])
while (head := sys.stdin.buffer.read(12)):
    header, payload = struct.unpack("<IQ", head)
    request = json.loads(sys.stdin.buffer.read(header))
    if "SLICEPORT_MEMORY" not in os.environ:
        sys.stdin.buffer.read(payload)
    with open(state, "a+") as file:
        file.write("x")
        file.seek(0)
        number = len(file.read()) - 1
    what = plan[min(number, len(plan) - 1)]
    if what == "die" or (what == "die of models" and request["do"] == "onnx"):
        sys.exit(3)
    if what in ("slow", "hang"):
        time.sleep(1 if what == "slow" else 600)
    error = {"call": "D3D12CreateDevice" if what == "no device" else "Run", "hresult": 0x80004005, "message": what}
    answer = {} if what in ("answer", "slow", "die of models") else {"error": error}
    text = json.dumps(answer).encode()
    sys.stdout.buffer.write(struct.pack("<IQ", len(text), 0) + text)
    sys.stdout.buffer.flush()
"""


def host(folder: Path, *plan: str, retries: bool = True, timeout: float = 60) -> Device:
    """Return a device whose host answers the first requests by a plan, across restarts of the process."""
    command = [sys.executable, "-c", HOST, str(folder / "state"), json.dumps(plan)]
    return Device(command, timeout, retries=retries)


def asked(folder: Path) -> int:
    return len((folder / "state").read_text())


@pytest.mark.parametrize("words", [("die", "answer"), ("one", "die", "answer")], ids=["second", "third"])
def test_a_request_may_be_answered_on_a_fresh_host_and_is_listed(tmp_path: Path, words: tuple[str, ...]) -> None:
    with host(tmp_path, *words) as device:
        assert device.facts() == {}
        assert len(device.transient) == len(words) - 1
        assert "the DirectML host program ended" in device.transient[-1]
    assert asked(tmp_path) == len(words)


def test_a_fresh_host_answers_what_was_refused_once(tmp_path: Path) -> None:
    with host(tmp_path, "answer", "80004005 Call failed", "answer") as device:
        device.facts()
        first = host_of(device)
        device.facts()
        assert host_of(device) != first
        assert device.transient == ["Run failed with 0x80004005: 80004005 Call failed."]


def test_a_request_that_fails_twice_in_the_same_way_has_failed(tmp_path: Path) -> None:
    with host(tmp_path, "no such operator") as device:
        with pytest.raises(CallFailed, match="no such operator"):
            device.facts()
        assert device.transient == []
    assert asked(tmp_path) == 2


def test_a_request_that_fails_differently_each_time_is_sent_three_times(tmp_path: Path) -> None:
    with host(tmp_path, "one", "die", "three", "answer") as device, pytest.raises(CallFailed, match="three"):
        device.facts()
    assert asked(tmp_path) == 3


@pytest.mark.parametrize("retries", [True, False])
def test_a_device_that_cannot_be_made_is_tried_on_three_hosts(tmp_path: Path, *, retries: bool) -> None:
    with host(tmp_path, "no device", "no device", "answer", retries=retries) as device:
        assert device.facts() == {}
        assert len(device.transient) == 2
    assert asked(tmp_path) == 3
    (tmp_path / "state").unlink()
    with host(tmp_path, "no device", retries=retries) as device, pytest.raises(CallFailed, match="D3D12CreateDevice"):
        device.facts()
    assert asked(tmp_path) == 3


def test_without_retries_a_request_is_sent_once(tmp_path: Path) -> None:
    with host(tmp_path, "die", "answer", retries=False) as device, pytest.raises(HostDied):
        device.facts()
    with host(tmp_path, "die") as device, device.without_retries(), pytest.raises(HostDied):
        device.facts()
    assert asked(tmp_path) == 2


def test_a_request_that_took_too_long_is_not_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with host(tmp_path, "answer", "hang") as device:
        device.facts()  # a start may take longer than the time below
        monkeypatch.setattr(device, "_start", lambda: pytest.fail("a second host"))
        device._timeout = 0.5
        with pytest.raises(HostTimedOut, match="did not answer within 0.5 s"):
            device.facts()


def test_host_that_the_machine_holds_up_gets_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with host(tmp_path, "answer", "slow", "answer", "hang", retries=False) as device:
        device.facts()
        device._timeout = 0.2
        monkeypatch.setattr(client, "is_held_up", lambda process, limit: process == host_of(device) and limit == 0.2)
        assert device.facts() == {}
        device.facts()
        with pytest.raises(HostTimedOut, match=r"did not answer within 2 s\."):
            device.facts()


def test_strings_are_refused_as_an_input(tmp_path: Path) -> None:
    with (
        host(tmp_path, "answer") as device,
        pytest.raises(DeviceError, match="input 'x' holds strings, which cannot be handed to the DirectML provider"),
    ):
        device.run_onnx(b"", {"x": np.array(["a"], object)}, ["y"])


GLU = """(float[2,4] x) => (float[2,2] y) {
    a, b = Split<axis = 1, num_outputs = 2> (x)  s = Sigmoid (b)  [product] y = Mul (a, s)
}"""
"""A model whose Mul and Sigmoid run fused; alone, the smaller installation cannot compile the Mul."""


def harden(invoke: Invoke, folder: Path, code: int, graph: str = GLU, opset: int = 18) -> Printed:
    """Return the texts of `harden --verify`, after which a file exists only if the exit code is 0."""
    model, out = save(graph, folder / "model.onnx", opset), folder / "out.onnx"
    printed = invoke("harden", model, "-o", out, "--verify=onnxruntime-dml", code=code)
    assert out.exists() == (code == 0)
    return printed


class Killer:
    """Kills the host when it has been sent certain requests that run a model."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
        self.requests = 0
        original = Device._ask_once

        def ask(device: Device, request: dict[str, Any], *rest: Any) -> tuple[dict[str, Any], bytes]:
            if request["do"] == "onnx":
                self.requests += 1
                if self.requests in numbers:
                    device.facts()
                    assert device._process is not None
                    device._process.kill()
            return original(device, request, *rest)

        monkeypatch.setattr(Device, "_ask_once", ask)


@pytest.mark.usefixtures("provider_kept")
def test_a_host_that_dies_once_before_and_once_after_does_not_fail_a_verification(
    directml: device.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    Killer(monkeypatch, 1, 3)  # each is sent again, so one model runs as the second request, the other as the fourth
    harden(invoke, tmp_path, 0)


def test_a_host_that_dies_each_time_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    dying = host(tmp_path, "die of models")
    monkeypatch.setattr(directml_provider.OnnxruntimeDML, "version", lambda _: "1.0")
    monkeypatch.setattr(directml_provider, "_shared_device", lambda _: dying)
    assert (
        "not compared on onnxruntime-dml, because neither model runs: the DirectML host"
        in harden(invoke, tmp_path, 0).out
    )
    assert asked(tmp_path) > 2


@pytest.mark.usefixtures("provider_kept")
def test_a_hardening_that_does_not_help_says_so(
    directml: device.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """Verify the model as it was, which the provider computes wrongly, in place of a hardened one."""
    from onnx_ops.passes.directml import harden as harden_directml

    original = harden_directml.harden_for_directml
    monkeypatch.setattr(harden_directml, "harden_for_directml", lambda model: original(model.clone()))
    assert "output 'y' differs on onnxruntime-dml as it did before the change" in harden(invoke, tmp_path, 0).out


@pytest.mark.usefixtures("provider_kept")
def test_node_that_the_adapter_cannot_compile_is_one_line(
    directml: device.Device, tmp_path: Path, invoke: Invoke
) -> None:
    graph = "(float[1,16,1] x) => (float[1,16,2] y) { [spectrum] y = DFT (x) }"
    assert "nothing to change" in harden(invoke, tmp_path, 0, graph, 20).out


def test_without_an_installation_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    said = harden(invoke, tmp_path, 2).err
    assert "DirectML is not installed" in said

"""The host program and its client: what dies is started again, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from onnx_ops.dml import device
from onnx_ops.dml.device import CallFailed, DeviceError, HostDied, install, protocol
from onnx_ops.dml.device.client import Device
from onnx_ops.dml.operators import ElementWiseIdentity
from onnx_ops.dml.tensor import BufferTensor, DataType

COPY = ElementWiseIdentity(BufferTensor.of(DataType.UINT8, (8,)), BufferTensor.of(DataType.UINT8, (8,)))
DATA = np.arange(8, dtype=np.uint8)


def children(pid: int) -> list[int]:
    """The processes under a process, itself included."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += children(int(child))
    return found


def assert_gone(pids: list[int]) -> None:
    for _ in range(100):
        alive = [
            pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        if not alive:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes {alive} are still there")


def mounts() -> list[str]:
    root = str(install.root_folder())
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[1].startswith(root)]


def works(opened: Device) -> None:
    (got,) = opened.run(COPY, DATA)
    assert np.array_equal(got, DATA)


def test_close_ends_every_process_and_leaves_no_mount(directml):
    with device.open() as opened:
        works(opened)
        pids = children(opened._process.pid)
        assert len(pids) > 3
    assert_gone(pids)
    assert mounts() == []
    opened.close()


def test_a_killed_host_is_reported_and_started_again(directml):
    with device.open() as opened:
        works(opened)
        pids = children(opened._process.pid)
        os.kill(pids[0], signal.SIGKILL)
        assert_gone(pids)  # all of them, though only the first was killed
        with pytest.raises(HostDied):
            works(opened)
        works(opened)


def test_a_host_that_hangs_is_ended_when_its_time_is_up(directml):
    with device.open(timeout=30) as opened:
        works(opened)
        pids = children(opened._process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        opened._timeout = 0.5
        with pytest.raises(HostDied, match="did not answer within|took nothing in"):
            works(opened)
        assert_gone(pids)
        opened._timeout = 30
        works(opened)


def test_a_client_that_is_killed_takes_everything_with_it(directml):
    code = "import onnx_ops.dml.device as d, time; o = d.open(); o.facts(); "
    code += "print(o._process.pid, flush=True); time.sleep(60)"
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = children(int(client.stdout.readline()))
    client.kill()
    client.wait()
    client.stdout.close()
    assert_gone(pids)


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"{}" * 40], ids=["huge frame", "text"])
def test_garbage_on_the_pipe_is_an_end_and_not_a_wrong_answer(directml, garbage):
    with device.open(timeout=20) as opened:
        works(opened)
        opened._process.stdin.write(garbage)
        with pytest.raises(HostDied):
            works(opened)
        works(opened)


def test_requests_that_make_no_sense_are_answers(directml):
    with device.open() as opened:
        for request in (
            {"do": "dance"},
            {"do": "run"},
            {"do": "create", "operator": {"type": "DML_OPERATOR_GEMM", "desc": {}}},
        ):
            with pytest.raises(CallFailed, match="request failed with 0x80070057"):
                opened._ask(request)
        works(opened)


def test_several_clients_side_by_side(directml):
    opened = [device.open() for _ in range(3)]
    try:
        for one in opened:
            works(one)
        opened[0].close()
        works(opened[1])
    finally:
        for one in opened:
            one.close()


def test_without_an_installation_it_says_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(
        DeviceError, match="DirectML is not installed for sliceport here; run: sliceport directml install"
    ):
        device.open()
    assert not install.uninstall()


def test_a_command_that_does_not_exist_or_ends_at_once():
    with (
        pytest.raises(HostDied, match="ended without an answer|ended while it was asked"),
        Device(["true"], 5) as opened,
    ):
        opened.facts()


def test_frames():
    frame = protocol.encode({"do": "x"}, b"abc")
    header, payload = protocol.PREFIX.unpack(frame[:12])
    assert (frame[12 : 12 + header], frame[-payload:]) == (b'{"do":"x"}', b"abc")
    with pytest.raises(ValueError, match="no object"):
        protocol.decode_header(b"[]")

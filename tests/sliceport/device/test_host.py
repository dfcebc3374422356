"""The host program and its client: a host that dies is started again, and no process or mount remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from amounts import long_only
from onnx_models import one_node
from platforms import POSIX
from processes import SMALL_HEAPS, assert_gone, children, descriptors_left, host_of, resident

from sliceport import device
from sliceport.device import CallFailed, DeviceError, HostDied, install, protocol
from sliceport.device.client import TIMEOUT, Device
from sliceport.directml.operators import ElementWiseIdentity, Slice1
from sliceport.directml.tensor import BufferTensor, DataType

COPY = ElementWiseIdentity(BufferTensor.of(DataType.UINT8, (8,)), BufferTensor.of(DataType.UINT8, (8,)))
DATA = np.arange(8, dtype=np.uint8)


def mounts() -> list[str]:
    root = str(install.folder())
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[1].startswith(root)]


def works(opened: Device) -> None:
    (got,) = opened.run(COPY, DATA)
    assert np.array_equal(got, DATA)


@pytest.fixture(scope="module")
def opened(directml: device.Device) -> Iterator[Device]:
    """Yield a device whose host program tests may end, as the next request starts another."""
    with device.open() as each:
        yield each


@POSIX
def test_the_adapter_is_named_as_software(directml: device.Device) -> None:
    assert directml.facts()["adapter"].endswith(", software on the CPU")


@POSIX
def test_close_ends_every_process_and_leaves_no_mount(
    directml: device.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # Wine aborts if it sees one of these
    monkeypatch.setenv("WINEARCH", "win32")
    with device.open() as opened:
        works(opened)
        pids = children(host_of(opened))
        assert len(pids) > 3
    assert_gone(pids)
    assert mounts() == []
    opened.close()


@POSIX
def test_a_killed_host_is_reported_and_started_again(opened: Device) -> None:
    works(opened)
    pids = children(host_of(opened))
    os.kill(pids[0], signal.SIGKILL)
    assert_gone(pids)  # all of them, though only the first was killed
    with pytest.raises(HostDied):
        works(opened)
    works(opened)


@POSIX
def test_a_host_that_hangs_is_ended_when_its_time_is_up(opened: Device) -> None:
    works(opened)
    pids = children(host_of(opened))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    opened._timeout = 0.5
    with pytest.raises(HostDied, match="did not answer within|took nothing in"):
        works(opened)
    assert_gone(pids)
    opened._timeout = TIMEOUT
    works(opened)


@POSIX
def test_a_client_that_is_killed_takes_everything_with_it(directml: device.Device) -> None:
    code = "import sliceport.device as d, time; o = d.open(); o.facts(); "
    code += "print(o._process.pid, flush=True); time.sleep(60)"
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    pids = children(int(client.stdout.readline()))
    client.kill()
    client.wait()
    client.stdout.close()
    assert_gone(pids)


@POSIX
def test_ctrl_c_in_the_middle_of_a_request_ends_everything(directml: device.Device) -> None:
    code = "import numpy as np\nfrom sliceport import device as d\n"
    code += "from sliceport.directml.operators import Slice1\n"
    code += "from sliceport.directml.tensor import BufferTensor, DataType\n"
    code += "t = BufferTensor.of(DataType.UINT32, (2**24, 2))\n"
    code += "o = d.open(); o.facts(); print(o._process.pid, flush=True)\n"
    code += "while True: o.run(Slice1(t, t, 2, (0, 0), (2**24, 2), (-1, 1)), np.zeros(2**27, np.uint8))\n"
    client = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal of its own, whose whole foreground gets the signal
    )
    assert client.stdout is not None
    pids = children(int(client.stdout.readline()))
    time.sleep(0.5)
    os.killpg(client.pid, signal.SIGINT)
    _, errors = client.communicate(timeout=300)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert_gone(pids)
    assert mounts() == []


def test_a_request_that_is_too_large_is_not_sent(directml: device.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    works(directml)
    monkeypatch.setattr(protocol, "MAX_PAYLOAD", 15)
    with pytest.raises(
        DeviceError, match=r"a payload of \d+ bytes exceeds the limit of the DirectML host program \(15\)"
    ):
        works(directml)
    monkeypatch.undo()
    works(directml)


@long_only
def test_a_tensor_of_256_mib_is_sliced(directml: device.Device) -> None:
    """Time and memory grow in line with the size; benchmarks/soak.py goes up to 1 GiB."""
    sizes = (2**24, 4)
    tensor = BufferTensor.of(DataType.UINT32, sizes)
    data = np.arange(2**26, dtype=np.uint32)
    operator = Slice1(tensor, BufferTensor.of(DataType.UINT32, (2**10, 4)), 2, (0, 0), (2**24, 4), (-(2**14), 1))
    (got,) = directml.run(operator, data.view(np.uint8))
    assert np.array_equal(got.view(np.uint32).reshape(2**10, 4), data.reshape(sizes)[:: -(2**14)])


@long_only
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_two_thousand_operators_in_one_process(directml: device.Device) -> None:
    """Compiled operators are kept up to a bound, everything else is released: memory stays where it was."""
    data = np.arange(64, dtype=np.uint8)
    after_first = 0
    for i in range(2000):
        source, target = BufferTensor.of(DataType.UINT8, (64,)), BufferTensor.of(DataType.UINT8, (1 + i % 40,))
        operator = Slice1(source, target, 1, (i % 20,), (1 + i % 40,), (1,))
        (got,) = directml.run(operator, data)
        assert np.array_equal(got[: 1 + i % 40], data[i % 20 : i % 20 + 1 + i % 40])
        if i == 200:
            after_first = resident(host_of(directml))
    assert resident(host_of(directml)) < after_first + 100 * 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("environment", "count"),
    [({}, 8), pytest.param(SMALL_HEAPS, 40, marks=long_only)],
    ids=["heaps that a single one would show", "small heaps"],
)
def test_sessions_leave_nothing_behind(directml: device.Device, environment: dict[str, str], count: int) -> None:
    with device.open(environment=environment) as opened:
        for i in range(count):
            x = np.arange(12, dtype=np.float32).reshape(4, 3) + i
            model = one_node("Split", 13, x, [("split", np.array([1, 3]))], {"axis": 0}, 2)
            names = [output.name for output in model.graph.output]
            a, b = opened.run_onnx(model.SerializeToString(), {model.graph.input[0].name: x}, names)
            assert np.array_equal(np.concatenate([a, b]), x)
            if i == 5:
                after_first = resident(host_of(opened))
        assert resident(host_of(opened)) < after_first + 30 * 2**20


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"{}" * 40], ids=["huge frame", "text"])
def test_garbage_on_the_pipe_ends_the_host_and_is_no_wrong_answer(opened: Device, garbage: bytes) -> None:
    works(opened)
    assert opened._process is not None
    assert opened._process.stdin is not None
    opened._process.stdin.write(garbage)
    with pytest.raises(HostDied):
        works(opened)


def test_requests_that_make_no_sense_are_answered_with_an_error(directml: device.Device) -> None:
    for request in ({"do": "dance"}, {"do": "run"}):
        with pytest.raises(CallFailed, match="request failed with 0x80070057"):
            directml._ask(request)
    works(directml)


def test_a_client_that_closes_leaves_the_others_running(opened: Device) -> None:
    works(opened)
    with device.open() as other:
        works(other)
    works(opened)


def test_without_an_installation_it_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(
        DeviceError, match="DirectML is not installed for sliceport here; run: sliceport directml install"
    ):
        device.open()
    assert not install.uninstall()


@POSIX
def test_a_command_that_ends_at_once_is_reported() -> None:
    with (
        pytest.raises(HostDied, match="ended without an answer|ended or sent no valid answer"),
        Device(["true"], 5) as opened,
    ):
        opened.facts()


def test_a_command_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    for command in (tmp_path / "nowhere", tmp_path):
        with (
            pytest.raises(DeviceError, match="the DirectML host program .* cannot be started"),
            Device([str(command)], 5) as opened,
        ):
            opened.facts()


@pytest.mark.skipif(sys.platform != "linux", reason="on Linux alone the client opens descriptors for its host")
def test_a_command_that_cannot_be_started_leaves_no_descriptor_open(tmp_path: Path) -> None:
    with Device([str(tmp_path / "none")]) as opened:
        before = os.listdir("/proc/self/fd")
        for spare in range(20):
            with descriptors_left(spare), pytest.raises(DeviceError, match="cannot be started"):
                opened.facts()
            assert os.listdir("/proc/self/fd") == before


@pytest.mark.skipif(sys.platform != "linux", reason="on Linux alone requests are put into memory")
def test_request_that_does_not_fit_into_memory_is_reported() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Device(["cat"]) as opened:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(
                DeviceError, match=r"^a request of 5000 bytes does not fit into memory \(File too large"
            ):
                opened._ask({"do": "run"}, [bytes(5000)])
            assert os.fstat(opened._memory or -1).st_size == 0
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


COUNT_FILES = """
import json, os, socket, struct, sys
header, _ = struct.unpack("<IQ", sys.stdin.buffer.read(12))
files = json.loads(sys.stdin.buffer.read(header))["files"]
with socket.socket(fileno=int(os.environ["SLICEPORT_SOCKET"])) as client:
    for _ in files:
        os.close(socket.recv_fds(client, 1, 1)[1][0])
text = json.dumps({"files": len(files)}).encode()
sys.stdout.buffer.write(struct.pack("<IQ", len(text), 0) + text)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the host program of Windows opens files by their paths")
def test_more_files_are_sent_than_a_socket_holds_or_a_process_may_open() -> None:
    with descriptors_left(100), Device([sys.executable, "-c", COUNT_FILES], 60) as opened:
        assert opened._ask({"files": [{}] * 1000}, files=[os.devnull] * 1000)[0] == {"files": 1000}


def test_frame_begins_with_the_sizes_and_the_header() -> None:
    head = protocol.encode_head({"do": "x"}, 3)
    assert protocol.PREFIX.unpack(head[:12]) == (len(head) - 12, 3)
    assert head[12:] == b'{"do":"x"}'

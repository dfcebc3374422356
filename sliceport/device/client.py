"""A device: one host program, and requests to it through a pipe."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from sliceport.device import protocol
from sliceport.device.arrays import decode, encode
from sliceport.device.errors import CallFailed, DeviceError, HostDied, HostTimedOut
from sliceport.device.session import NodeRun, StoredTensor
from sliceport.directml.abi import Image
from sliceport.directml.emulator import FILL
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.operators import Operator
from sliceport.errors import InvalidDescriptor
from sliceport.sandbox.child import read_exactly
from sliceport.sandbox.held_up import is_held_up

Bytes = npt.NDArray[np.uint8]
Buffer = bytes | bytearray | memoryview
TIMEOUT = 120.0
"""Default time limit per request in seconds, longer if the machine is busy; see `is_held_up`."""
_MAX_WAITS = 10
"""A request ends after this multiple of its time limit, even if the machine is too busy for the host program."""
_MAX_TRIES = 3
_DEVICE_CREATION = ("D3D12CreateDevice", "DMLCreateDevice1")
"""The calls that create the device."""


class Device:
    """The real DirectML, as a context manager. `sliceport.device.open` creates it and describes the arguments.

    The host program starts with the first request, and with the next one after it died. All its processes end with it.

    Attributes:
        retries: Whether a failed request is repeated on a fresh host, up to twice, unless the same failure occurs again
            or the request took too long.
        transient: The messages of failures after which the repeated request succeeded.
    """

    def __init__(
        self,
        command: Sequence[str],
        timeout: float = TIMEOUT,
        *,
        retries: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._timeout = timeout
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._memory: int | None = None  # a descriptor
        self._socket: socket.socket | None = None
        self._opened = ExitStack()  # closes the three above
        self.retries = retries
        self.transient: list[str] = []

    @contextmanager
    def without_retries(self) -> Iterator[None]:
        """Repeat no failed request inside the `with` block, except after a failure to create the device."""
        previous, self.retries = self.retries, False
        try:
            yield
        finally:
            self.retries = previous

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the host program and everything that it started."""
        self._end_host()

    def _end_host(self, *, kill: bool = False) -> None:
        """End the host program by closing its pipes, or kill it at once if `kill`."""
        if self._process is not None and kill:
            # The thread of a request may still read from the pipes, and closing them would wait for the thread.
            self._process.kill()
            self._process.wait()
        self._process = self._memory = self._socket = None
        self._opened.close()

    def facts(self) -> dict[str, Any]:
        """Return the adapter, its shader model, DirectML's highest feature level and onnxruntime's version.

        Raises:
            DeviceError: The host program failed, or onnxruntime cannot be loaded.
        """
        return self._ask({"do": "facts", "levels": list(FeatureLevel)})[0]

    def create_operator(self, operator: Operator) -> int:
        """Call IDMLDevice::CreateOperator and return its HRESULT, 0 for success.

        Raises:
            DeviceError: The host program failed, or the device cannot be created.
            InvalidDescriptor: A number does not fit its field.
        """
        image = Image(operator)
        try:
            self._ask({"do": "create", "operator": image.to_json()}, [image.data])
        except CallFailed as error:
            if error.call == "CreateOperator":
                return error.hresult
            raise  # another call failed, such as D3D12CreateDevice
        return 0

    def run(self, operator: Operator, data: Bytes, *, byte_offset: int = 0) -> list[Bytes]:
        """Run an operator. Before the run, all bytes of its output buffers are `emulator.FILL`.

        Args:
            operator: The descriptor.
            data: The input's buffer, which must contain all elements of the tensor. Bytes after it may be left out.
            byte_offset: Start of the input tensor in its buffer, a multiple of 16.

        Returns:
            The contents of the output buffers after the run.

        Raises:
            CallFailed: DirectML refuses the operator, the device or a buffer cannot be created, or the device is lost.
            HostDied: The host program ended or did not answer in time.
            DeviceError: The host program cannot be started, or the request is too large for it.
            InvalidDescriptor: `data` is too short for the input tensor, or a number does not fit its field.
        """
        tensor = operator.input_tensor
        end = byte_offset + tensor.physical_size * tensor.data_type.bits // 8
        if data.size < end:
            raise InvalidDescriptor(f"InputTensor: the tensor ends at byte {end}, but its buffer has {data.size}.")
        size = byte_offset + -(-tensor.total_tensor_size_in_bytes // 4) * 4  # a buffer has a multiple of 4 bytes
        padding = bytes(max(0, size - data.size))
        image = Image(operator)
        operator_json, sizes = image.to_json(), [tensor.total_tensor_size_in_bytes for tensor in operator.outputs]
        request = {"do": "run", "operator": operator_json, "input": size, "offset": byte_offset, "outputs": sizes}
        _, reply = self._ask(request, [image.data, data[:size].data, padding, bytes([FILL]) * sum(sizes)])
        return np.split(np.frombuffer(reply, np.uint8), np.cumsum(sizes)[:-1])

    def run_onnx(
        self,
        model: bytes,
        inputs: Mapping[str, npt.NDArray[Any]],
        outputs: Sequence[str],
        *,
        fallback: bool = False,
        fusion: bool = True,
        weights: Mapping[str, StoredTensor] | None = None,
    ) -> list[npt.NDArray[Any]]:
        """Run a model on onnxruntime's DirectML provider without graph optimization.

        Args:
            model: The serialized model.
            inputs: An array for each input.
            outputs: Names of the outputs to return.
            fallback: Whether nodes that the provider does not accept may run on the CPU.
            fusion: Whether the provider may fuse nodes into DirectML graphs.
            weights: The initializers of the main graph that are stored in other files, by name.

        Returns:
            The outputs in the order of `outputs`.

        Raises:
            CallFailed: onnxruntime refuses the model or fails to run it.
            HostDied: The host program ended or did not answer in time.
            DeviceError: The elements of an input cannot be sent, a data file cannot be read, the host program cannot be
                started, or the request is too large for it.
        """
        return self.trace_onnx(model, inputs, outputs, fallback=fallback, fusion=fusion, weights=weights)[0]

    def trace_onnx(
        self,
        model: bytes,
        inputs: Mapping[str, npt.NDArray[Any]],
        outputs: Sequence[str],
        *,
        fallback: bool = True,
        fusion: bool = True,
        weights: Mapping[str, StoredTensor] | None = None,
    ) -> tuple[list[npt.NDArray[Any]], list[NodeRun]]:
        """Run a model like `run_onnx`, with the same errors, and also return its nodes with their execution providers.

        Unlike in `run_onnx`, nodes may run on the CPU by default. Without `fallback`, a model that needs the CPU is
        refused. The nodes are those of the graph before fusion. They include nodes of branches that do not run, and
        Casts that onnxruntime removes afterwards. Versions of onnxruntime before 1.24 return no nodes.
        """
        arrays = {name: (array, *encode(name, array)) for name, array in inputs.items()}
        config = {"session.record_ep_graph_assignment_info": "1"}
        if not fallback:
            config["session.disable_cpu_ep_fallback"] = "1"
        if not fusion:
            config["ep.dml.disable_graph_fusion"] = "1"
        weights = weights or {}
        files = list(dict.fromkeys(weight.path for weight in weights.values()))
        request: dict[str, Any] = {
            "do": "onnx",
            "files": [],
            "model_size": len(model),
            "weights": [
                asdict(weight) | {"name": name, "file": files.index(weight.path)} for name, weight in weights.items()
            ],
            "inputs": [
                {"name": name, "shape": list(array.shape), "element": element, "size": len(data)}
                for name, (array, element, data) in arrays.items()
            ],
            "outputs": list(outputs),
            "config": config,
        }
        for path in files:
            with _open_data_file(path) as file:
                request["files"].append({"size": os.fstat(file.fileno()).st_size})
        header, reply = self._ask(request, [model, *(data for *_, data in arrays.values())], files)
        data = io.BytesIO(reply)
        results = [decode(each["element"], each["shape"], data.read(each["size"])) for each in header["outputs"]]
        return results, [NodeRun(*node) for node in header["nodes"]]

    def _ask(
        self, request: dict[str, Any], payload: Sequence[Buffer] = (), files: Sequence[str] = ()
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request and the data files at the paths `files`. Return the header and the payload of the answer.

        With `retries`, a failed request is repeated on a new host, up to twice. It is not repeated if the same failure
        occurs again, or if the request timed out. A failure to create the device may be transient, and no request
        causes it. So the request is repeated up to twice, even without `retries` and even if the same failure recurs.

        Raises:
            CallFailed: DirectML, Direct3D or onnxruntime refuses the request.
            HostDied: The host program ended or did not answer in time.
            DeviceError: The host program cannot be started, the request is too large, or a data file cannot be read.
        """
        failures: list[str] = []
        while True:
            try:
                answer = self._ask_once(request, payload, files)
            except (CallFailed, HostDied) as error:
                is_device_creation = isinstance(error, CallFailed) and error.call in _DEVICE_CREATION
                may_repeat = is_device_creation or (self.retries and str(error) not in failures)
                if isinstance(error, HostTimedOut) or not may_repeat or len(failures) + 1 == _MAX_TRIES:
                    raise
                failures.append(str(error))
                self.close()
                continue
            self.transient += failures
            return answer

    def _ask_once(
        self, request: dict[str, Any], payload: Sequence[Buffer], files: Sequence[str]
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request once, with the result and the errors of `_ask`. Kill a host program that fails to answer."""
        parts = [memoryview(part).cast("B") for part in payload]
        size = sum(map(len, parts))
        head = protocol.encode_head(request, size)
        if self._process is None:
            self._process = self._start()
        if self._memory is not None:  # the payload goes through shared memory, not through the pipe
            try:
                with open(self._memory, "wb", closefd=False) as file:
                    file.seek(0)
                    file.writelines(parts)
            except OSError as error:
                os.ftruncate(self._memory, 0)  # frees the memory of the written part
                raise DeviceError(f"a request of {size} bytes does not fit into memory ({error.strerror}).") from None
            parts = []
        # Pipes have no timeout on some platforms, so a thread waits for the answer. The thread ends when the host ends.
        executor = ThreadPoolExecutor(1)
        waits = 0
        try:
            exchange = executor.submit(self._exchange, [memoryview(head), *parts], files)
            while not wait([exchange], self._timeout).done:
                waits += 1  # a busy machine may give the host too little of the processor to answer in time
                if waits == _MAX_WAITS or not is_held_up(self._process.pid, self._timeout):
                    break
            header, reply = exchange.result(0)  # raises TimeoutError if there is no answer
        except BaseException as error:  # such as Ctrl-C, which leaves the pipe in the middle of a frame
            self._end_host(kill=True)
            program = "the DirectML host program"
            if isinstance(error, TimeoutError):
                raise HostTimedOut(f"{program} did not answer within {waits * self._timeout:g} s.") from None
            if isinstance(error, OSError | EOFError | ValueError):  # a dying program may print other text than JSON
                raise HostDied(f"{program} ended or sent no valid answer to {request['do']!r} ({error}).") from None
            raise
        finally:
            executor.shutdown(wait=False)
        if self._memory is not None:
            os.ftruncate(self._memory, 0)  # frees the memory of the payload
        if "error" in header:
            raise CallFailed(**header["error"])
        return header, reply

    def _exchange(self, parts: Sequence[memoryview], files: Sequence[str]) -> tuple[dict[str, Any], bytes]:
        """Send the parts of a frame and data files, and return the header and the payload of the answer.

        Raises:
            OSError, EOFError, ValueError: The host program ended, or its output is not an answer.
            DeviceError: A data file cannot be read.
        """
        process, files_socket = self._process, self._socket  # another thread may set them to None
        assert process is not None
        assert process.stdin is not None
        for part in parts:
            written = 0
            while written < len(part):  # a pipe may accept only a part at once
                written += process.stdin.write(part[written:])
        # The host program sees no paths outside of its root folder, so it receives open files. They follow the frame,
        # because the host program reads files only after a frame, and a socket holds fewer than 300 files that are not
        # read yet. Each file is open only while it is sent, because many systems let a process open at most 1024 files.
        if sys.platform != "win32" and files_socket is not None:
            for path in files:
                with _open_data_file(path) as file:
                    socket.send_fds(files_socket, [b"f"], [file.fileno()])
        header_size, payload_size = protocol.PREFIX.unpack(_read(process, protocol.PREFIX.size))
        return json.loads(_read(process, header_size)), _read(process, payload_size)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the host program, on Linux with shared memory for payloads and a socket for open files.

        Raises:
            DeviceError: The host program cannot be started.
        """
        environment, descriptors = self._environment, list[int]()
        try:
            with ExitStack() as opened:
                if sys.platform == "linux":  # Wine reads pipes slowly, and cannot open files outside of its root folder
                    self._memory = os.memfd_create("sliceport")
                    self._opened.callback(os.close, self._memory)
                    self._socket, host_socket = socket.socketpair()
                    self._opened.enter_context(self._socket)
                    opened.enter_context(host_socket)  # the host program has its own copy
                    descriptors = [self._memory, host_socket.fileno()]
                    names = ("SLICEPORT_MEMORY", "SLICEPORT_SOCKET")
                    environment = environment | dict(zip(names, map(str, descriptors), strict=True))
                process = subprocess.Popen(  # noqa: S603 - the fixed command of the installation
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    env=environment,
                    pass_fds=descriptors,
                )
        except OSError as error:
            self._end_host()
            reason = error.strerror or error
            raise DeviceError(f"the DirectML host program {self._command[0]!r} cannot be started ({reason}).") from None
        self._opened.callback(_end, process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a host program, which then ends by itself. Kill it if it still runs after 5 seconds."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _open_data_file(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise DeviceError(f"'{path}' cannot be read ({error.strerror}).") from None


def _read(process: subprocess.Popen[bytes], size: int) -> bytes:
    assert process.stdout is not None
    data = read_exactly(process.stdout, size)
    if data is None:
        raise EOFError("it ended without an answer")
    return data

"""The host program of Windows: DirectML and onnxruntime's DirectML provider behind a pipe.

    python -m sliceport.device.windows_host FOLDER

It answers the same requests as `host/host.cpp`, in the same frames. It runs in a process of its own, because an error
in a driver may end the process. FOLDER contains DirectML.dll; the provider is part of the installed onnxruntime.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from sliceport.device import protocol
from sliceport.device.arrays import can_decode, dtype_of
from sliceport.device.direct3d import Direct3DDevice
from sliceport.device.errors import CallFailed
from sliceport.device.windows import ADAPTER
from sliceport.directml.abi import relocate
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.errors import is_out_of_memory

_E_INVALIDARG, _E_NOTIMPL, _E_FAIL, _E_OUTOFMEMORY = 0x80070057, 0x80004001, 0x80004005, 0x8007000E
_PROVIDER = "DmlExecutionProvider"

Answer = tuple[dict[str, Any], bytes]
"""The header and the payload of an answer."""


class Host:
    """The device, with one method for each kind of request.

    Args:
        folder: The folder of DirectML.dll.
        adapter: The number of the adapter, in the order of DXGI.
    """

    def __init__(self, folder: Path, adapter: int) -> None:
        self._folder = folder
        self._adapter = adapter
        self._answers: dict[str, Callable[[dict[str, Any], bytes], Answer]] = {
            "facts": self._facts,
            "create": self._create,
            "run": self._run,
            "onnx": self._run_onnx,
        }

    @cached_property
    def _device(self) -> Direct3DDevice:  # created by a request, so that `answer` reports an error of the creation
        return Direct3DDevice(self._folder, self._adapter)

    def answer(self, request: dict[str, Any], payload: bytes) -> Answer:
        """Return the answer to a request. If the request fails, the header of the answer describes the error."""
        try:
            return self._answers[request["do"]](request, payload)
        except CallFailed as error:
            failure = error
        except MemoryError:
            failure = CallFailed("new", _E_OUTOFMEMORY, "out of memory")  # as in host.cpp, where `new` fails
        except (KeyError, ValueError, OSError) as error:
            failure = CallFailed("request", _E_INVALIDARG, f"{type(error).__name__}: {error}")
        # A failed run leaves recorded commands, and maybe a lost device, so the next request creates a new device.
        if failure.call != "CreateOperator":  # this call records nothing
            self.__dict__.pop("_device", None)
        return {"error": {"call": failure.call, "hresult": failure.hresult, "message": failure.message}}, b""

    def _facts(self, _: dict[str, Any], __: bytes) -> Answer:
        facts = {
            "adapter": self._device.adapter,
            "shader_model": self._device.shader_model(),
            "feature_level": str(FeatureLevel(self._device.feature_level())),
            "onnxruntime": _import_onnxruntime().__version__,
        }
        return facts, b""

    def _create(self, request: dict[str, Any], payload: bytes) -> Answer:
        operator = request["operator"]
        _memory, address = relocate(bytearray(payload[: operator["size"]]), operator)  # it must live during the call
        # The operator is released at once, because the request only asks whether DirectML accepts it.
        self._device.new_operator(address)
        return {}, b""

    def _run(self, request: dict[str, Any], payload: bytes) -> Answer:
        operator = request["operator"]
        key, data = payload[: operator["size"]], payload[operator["size"] :]  # the bytes of the operator identify it
        _memory, address = relocate(bytearray(key), operator)  # the memory must live during the call
        sizes = [request["input"], *request["outputs"]]  # sizes of the buffers in bytes
        return {}, self._device.run(key, address, data, sizes, request["offset"])

    def _run_onnx(self, request: dict[str, Any], payload: bytes) -> Answer:
        ort = _import_onnxruntime()
        options = _session_options(ort, request)
        data, weights, inputs = io.BytesIO(payload), request["weights"], request["inputs"]
        call = "CreateSession"  # the step to name in an error
        try:
            weight_arrays: list[Any] = []  # onnxruntime reads the arrays of weights and inputs until the run has ended
            if weights:
                parts = (np.fromfile(each["path"], np.uint8, each["size"], offset=each["offset"]) for each in weights)
                initializers, weight_arrays = _make_values(ort, weights, parts)
                options.add_external_initializers(list(initializers), list(initializers.values()))
            provider = (_PROVIDER, {"device_id": str(self._adapter)})
            session = ort.InferenceSession(data.read(request["model_size"]), options, providers=[provider])
            session.disable_fallback()  # otherwise onnxruntime would repeat a failed run on the CPU
            if _PROVIDER not in session.get_providers():  # onnxruntime falls back to the CPU without an error
                raise RuntimeError(f"the DirectML provider does not start on adapter {self._adapter}")
            call = "Run"
            contents = (np.frombuffer(data.read(each["size"]), np.uint8) for each in inputs)
            feeds, input_arrays = _make_values(ort, inputs, contents)
            results = session.run_with_ort_values(request["outputs"], feeds)
            del input_arrays, weight_arrays
            if not all(can_decode(result.element_type()) for result in results):
                raise RuntimeError("an output's element type cannot be sent")
        except Exception as error:  # onnxruntime has its own classes of errors, not derived from one another
            raise CallFailed(call, _E_OUTOFMEMORY if is_out_of_memory(error) else _E_FAIL, str(error)) from None
        graphs: Any = getattr(session, "get_provider_graph_assignment_info", list)()  # [] before onnxruntime 1.24
        nodes = [(node.name, node.op_type, graph.ep_name) for graph in graphs for node in graph.get_nodes()]
        sized = [(result, result.tensor_size_in_bytes()) for result in results]
        outputs = [
            {"shape": list(result.shape()), "element": result.element_type(), "size": size} for result, size in sized
        ]
        reply = [ctypes.string_at(result.data_ptr(), size) for result, size in sized if size]
        return {"nodes": nodes, "outputs": outputs}, b"".join(reply)


def _import_onnxruntime() -> Any:
    """Return the module onnxruntime, or raise CallFailed if the module or its DirectML provider is missing."""
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise CallFailed("import onnxruntime", _E_NOTIMPL, f"{error}; run: pip install onnxruntime-directml") from None
    if _PROVIDER not in ort.get_available_providers():
        reason = "the installed onnxruntime has no DirectML provider; run: pip install onnxruntime-directml"
        raise CallFailed("get_available_providers", _E_NOTIMPL, reason)
    return ort


def _session_options(ort: Any, request: Mapping[str, Any]) -> Any:
    """Return the options of a session, with the same settings as in `host/host.cpp`."""
    options = ort.SessionOptions()
    options.enable_mem_pattern = False  # The DirectML provider does not support memory patterns.
    options.log_severity_level = 4  # fatal errors only
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, value in request["config"].items():
        options.add_session_config_entry(name, value)
    return options


def _make_values(
    ort: Any, tensors: Iterable[dict[str, Any]], contents: Iterable[npt.NDArray[np.uint8]]
) -> tuple[dict[str, Any], list[Any]]:
    """Return the tensors that a request describes, by name, and the arrays whose memory these tensors use."""
    values, buffers = {}, []
    for description, content in zip(tensors, contents, strict=True):
        width = dtype_of(description["element"]).itemsize
        # Elements of less than a byte are packed in `content`, but onnxruntime expects an array of the tensor's shape.
        memory = np.zeros(int(np.prod(description["shape"], dtype=np.int64)) * width, np.uint8)
        memory[: description["size"]] = content
        array = memory.view(f"V{width}").reshape(description["shape"])  # only the itemsize of this type counts
        buffers.append(array)
        values[description["name"]] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, description["element"])
    return values, buffers


def serve(host: Host, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the pipe is closed. Exit with status 3 if a frame exceeds the limits of `protocol`."""
    while len(prefix := requests.read(protocol.PREFIX.size)) == protocol.PREFIX.size:
        header_size, payload_size = protocol.PREFIX.unpack(prefix)
        if header_size > protocol.MAX_HEADER or payload_size > protocol.MAX_PAYLOAD:
            sys.exit(3)  # the client sends no such frame, so the pipe is out of step
        request = json.loads(requests.read(header_size))
        header, payload = host.answer(request, requests.read(payload_size))
        answers.write(protocol.encode_head(header, len(payload)))
        answers.write(payload)
        answers.flush()


def main() -> None:
    """Serve the pipe. Answers go to a copy of stdout; stdout becomes stderr, so that no library writes into a frame."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(Host(Path(sys.argv[1]), int(os.environ.get(ADAPTER, "0"))), sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()

"""A model in one onnxruntime session on the CPU provider, inside a worker process.

This module imports little, so that a worker starts quickly.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sliceport.engines.tensor_bytes import TensorBytes

STRING = 8
LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_ELEMENT_BYTES = {1: 4, 4: 2, 5: 2, 6: 4, 7: 8, 10: 2, 11: 8, 12: 4, 13: 8, 14: 8, 15: 16, 16: 2}
"""Bytes of an element by the number of its type in TensorProto; types that are not listed take one."""
_LENGTH = struct.Struct("<Q")
_M_PERTURB = -6
_fill_bytes = itertools.cycle(range(0x40, 0x78))  # floats of these bytes are far from 0 and from each other


@dataclass(frozen=True)
class Captured(TensorBytes):
    """The bytes of a tensor that a model reads or computes. A string is its length in 64 bits, then its own bytes.

    Attributes:
        element: The number of its element type in TensorProto.
    """

    element: int

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Captured:
        """Return the bytes of an array; elements of less than a byte are packed."""
        if array.dtype == object or array.dtype.kind == "U":
            return cls(_pack_strings(array), array.shape, STRING)
        import onnx_ir as ir

        dtype = ir.DataType.from_numpy(array.dtype)
        if dtype.bitwidth < 8:
            data = np.frombuffer(ir.tensor(np.ascontiguousarray(array), dtype=dtype).tobytes(), np.uint8)
        else:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return cls(data, array.shape, dtype.value)

    def array(self) -> npt.NDArray[Any]:
        """Return the tensor as an array of a type of NumPy or ml_dtypes, strings as objects."""
        if self.element == STRING:
            return np.array(_unpack_strings(self.data), object).reshape(self.shape)
        import onnx_ir as ir

        dtype = ir.DataType(self.element)
        if dtype.bitwidth < 8:
            import onnx

            packed = onnx.TensorProto(data_type=self.element, dims=self.shape, raw_data=self.data.tobytes())
            return onnx.numpy_helper.to_array(packed)
        return self.data.view(dtype.numpy()).reshape(self.shape)

    def equals(self, other: Captured) -> bool:
        """Return whether type, sizes and every bit are the same."""
        same = self.element == other.element and self.shape == other.shape
        return same and np.array_equal(self.data, other.data)


@dataclass(frozen=True)
class NotComparable:
    """A value whose bytes onnxruntime does not return.

    Attributes:
        type: The name of its type in onnxruntime, or else in Python.
    """

    type: str


Value = Captured | NotComparable | tuple["Value", ...] | None
"""A tensor, a value without accessible bytes, a sequence, a map (as keys and values), or None for an empty optional."""


@dataclass(frozen=True)
class Job:
    """A run of a model.

    Attributes:
        model: The serialised model.
        feeds: The inputs by name.
        names: The names of the outputs to compute.
        data_folder: The folder of external data, or an empty string.
        level: The level of graph optimisation, a name of `LEVELS`.
        disabled: The names of optimizers that onnxruntime leaves out.
    """

    model: bytes
    feeds: Mapping[str, Captured]
    names: Sequence[str]
    data_folder: str = ""
    level: str = "none"
    disabled: Sequence[str] = ()


class NotRun(Exception):
    """An error: onnxruntime does not load or run the model."""


def run(job: Job) -> dict[str, Value]:
    """Run a model and return its outputs by name.

    Raises:
        NotRun: onnxruntime does not load or run the model.
        MemoryError: onnxruntime runs out of memory.
        ImportError: onnxruntime is not installed.
    """
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[job.level])
    options.log_severity_level = 4
    if job.level == "none":  # a constant matrix would be packed, and its products summed in another order
        options.add_session_config_entry("session.disable_prepacking", "1")
    if job.data_folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", job.data_folder)
    # Kernels may leave values unwritten if a tensor is empty; another fill each time makes such values differ.
    if any(0 in feed.shape for feed in job.feeds.values()):
        _fill_new_memory(next(_fill_bytes))
    try:
        extra = {"disabled_optimizers": list(job.disabled)} if job.disabled else {}
        session = ort.InferenceSession(job.model, options, providers=["CPUExecutionProvider"], **extra)
        return _run_session(ort, session, job)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # onnxruntime has its own classes of errors, not derived from one another
        message = " ".join(str(error).split())
        if "bad_alloc" in message or "Failed to allocate memory" in message:
            raise MemoryError from None
        raise NotRun(message) from None
    finally:
        _fill_new_memory(0)


def _fill_new_memory(fill: int) -> None:
    """Fill all memory that is allocated from now on with the byte `fill`; 0 stops this.

    This is M_PERTURB of glibc's mallopt. With other C libraries nothing happens.
    """
    if "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", ()):
        ctypes.CDLL(None).mallopt(_M_PERTURB, fill and fill ^ 0xFF)


def _run_session(ort: Any, session: Any, job: Job) -> dict[str, Value]:
    """Run a session: on OrtValues, because NumPy lacks some of ONNX's types, unless an input has strings."""
    buffers: list[Any] = []  # kept alive, because onnxruntime reads their memory while it runs
    feeds = {name: _make_feed(ort, value, buffers) for name, value in job.feeds.items()}
    if any(value.element == STRING for value in job.feeds.values()):  # `run_with_ort_values` takes no strings
        return {name: _run_for_output(session, name, feeds) for name in job.names}
    results = session.run_with_ort_values(list(job.names), feeds)
    outputs: dict[str, Value] = {}
    for name, result in zip(job.names, results, strict=True):
        outputs[name] = _from_ort(result) if result.is_tensor() else _run_for_output(session, name, feeds)
    return outputs


def _make_feed(ort: Any, value: Captured, buffers: list[Any]) -> Any:
    if value.element == STRING:
        return value.array()
    count = int(np.prod(value.shape, dtype=np.int64))
    width = _ELEMENT_BYTES.get(value.element, 1)
    data = np.zeros(count * width, np.uint8)  # onnxruntime reads this size even if elements are packed
    data[: value.data.size] = value.data
    array = data.view(f"V{width}").reshape(value.shape)
    buffers.append(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, value.element)


def _run_for_output(session: Any, name: str, feeds: Mapping[str, Any]) -> Value:
    """Compute one output by `session.run`, which also takes strings and returns sequences."""
    try:
        (result,) = session.run([name], dict(feeds))
    except RuntimeError as error:
        if "No corresponding Numpy type" in str(error):
            return NotComparable(next(output.type for output in session.get_outputs() if output.name == name))
        raise
    return _from_python(result)


def _from_python(value: Any) -> Value:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_from_python(item) for item in value)
    if isinstance(value, dict):
        return tuple(_from_python(np.array(list(items))) for items in (value.keys(), value.values()))
    return Captured.of(value) if isinstance(value, np.ndarray) else NotComparable(type(value).__name__)


def _from_ort(value: Any) -> Value:
    shape = tuple(value.shape())
    if value.data_type() == "tensor(string)":
        return Captured(_pack_strings(value.numpy()), shape, STRING)
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return Captured(np.frombuffer(data, np.uint8), shape, value.element_type())


def _pack_strings(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    parts = []
    # Strings of ONNX may be bytes that are not UTF-8; surrogates keep them apart and bring them back.
    for text in array.reshape(-1).tolist():
        data = text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
        parts += [_LENGTH.pack(len(data)), data]
    return np.frombuffer(b"".join(parts), np.uint8)


def _unpack_strings(data: npt.NDArray[np.uint8]) -> list[str]:
    texts, packed, offset = [], data.tobytes(), 0
    while offset < len(packed):
        (size,) = _LENGTH.unpack_from(packed, offset)
        offset += _LENGTH.size + size
        texts.append(packed[offset - size : offset].decode("utf-8", "surrogateescape"))
    return texts

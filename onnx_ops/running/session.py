"""A model in one onnxruntime session on the CPU provider, inside a worker process.

This module imports little, so that a worker starts quickly.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_ops.model.element_type import BITS
from sliceport.engines.engine import TensorBytes, Value, WholeModel
from sliceport.errors import UsageError, model_error
from sliceport.wording import shorten

STRING = 8  # the number of the element type in TensorProto
LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
NO_PREPACKING = ("session.disable_prepacking", "1")
"""An entry that turns prepacking off.

Prepacking a constant matrix changes the order in which its products are summed. MatMulNBits with accuracy_level 4
rounds its inputs to int8 only if its weights are prepacked.
"""
_LENGTH = struct.Struct("<Q")  # of a string, in bytes
# The place in onnxruntime's sources at the start of its messages: a path, a line and the signature of a function.
# GCC writes the whole signature of the function, MSVC its name.
_POSITION = re.compile(
    r"/onnxruntime_src/\S+:\d+ [^()]*\([^()]*\)(?: const)?(?: \[with [^]]*\])? |[A-Z]:\\\S+:\d+ \S+ "
)
_fill_bytes = itertools.cycle(range(0x40, 0x78))  # floats of these bytes are far from 0 and from each other


@dataclass(frozen=True)
class Captured(TensorBytes):
    """The bytes of a tensor that a model reads or computes.

    Elements of less than a byte are packed. Each string is stored as its length in 64 bits, followed by its bytes.

    Attributes:
        element: The number of the element type in TensorProto.
    """

    element: int

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Captured:
        """Return an array as a `Captured`. Raise TypeError for a type that ONNX lacks."""
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
        """Return the tensor as an array. Its type is one of NumPy or ml_dtypes, or `object` for strings."""
        if self.element == STRING:
            return np.array(_unpack_strings(self.data), object).reshape(self.shape)
        import onnx_ir as ir

        dtype = ir.DataType(self.element)
        if dtype.bitwidth < 8:  # the elements are packed
            import onnx

            packed = onnx.TensorProto(data_type=self.element, dims=self.shape, raw_data=self.data.tobytes())
            return onnx.numpy_helper.to_array(packed)
        return self.data.view(dtype.numpy()).reshape(self.shape)


def run(
    model: WholeModel,
    inputs: Mapping[str, npt.NDArray[Any]],
    *,
    level: str,
    disabled: Sequence[str] = (),
    prepacks: bool = True,
    custom_ops: str = "",
) -> dict[str, Value]:
    """Run a model and return its outputs by name. Outputs that onnxruntime cannot return to Python are omitted.

    Args:
        model: The model.
        inputs: An array for each input.
        level: The level of graph optimisation, a key of `LEVELS`.
        disabled: The names of optimizers that onnxruntime must not use.
        prepacks: Whether kernels may rearrange constant weights.
        custom_ops: The file of a library of custom operators; empty for none.

    Raises:
        UsageError: onnxruntime does not load the library.
        ModelError: onnxruntime does not load or run the model.
        MemoryError: onnxruntime runs out of memory.
        ImportError: onnxruntime or onnx-ir is not installed or cannot be loaded.
    """
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.log_severity_level = 4  # fatal messages only, because errors are raised
    if not prepacks:
        options.add_session_config_entry(*NO_PREPACKING)
    if model.data_folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", model.data_folder)
    if custom_ops:
        try:
            options.register_custom_ops_library(os.path.abspath(custom_ops))
        except Exception as error:  # as below
            reason = shorten(str(error)).rstrip(".")
            raise UsageError(f"the library of custom operators '{custom_ops}' cannot be loaded: {reason}.") from None
    # If an input is empty, kernels may leave outputs unwritten. Filling new memory with a different byte in each run
    # makes such outputs differ between runs.
    if any(array.size == 0 for array in inputs.values()):
        _fill_new_memory(next(_fill_bytes))
    try:
        session = ort.InferenceSession(
            model.data, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled)
        )
        return _run_session(ort, session, inputs, model.outputs)
    except ImportError:  # `Captured` imports onnx-ir
        raise
    except Exception as error:  # onnxruntime's classes of errors have no base class of their own
        raise model_error(" ".join(_POSITION.sub("", str(error)).split()), error) from None
    finally:
        _fill_new_memory(0)


def _fill_new_memory(fill: int) -> None:
    """Let malloc fill new memory with the byte `fill`, from 1 to 254. 0 stops this.

    This is M_PERTURB, option -6 of glibc's mallopt. With other C libraries nothing happens.
    """
    if os.name == "posix" and hasattr(libc := ctypes.CDLL(None), "gnu_get_libc_version"):  # Windows refuses None.
        # glibc fills new memory with the complement of the value, and does nothing if the value is 0.
        libc.mallopt(-6, fill ^ 0xFF if fill else 0)


def _run_session(
    ort: Any, session: Any, inputs: Mapping[str, npt.NDArray[Any]], names: Sequence[str]
) -> dict[str, Value]:
    """Run an onnxruntime session. Return each output in `names` that can be converted to Python.

    Tensors are passed as OrtValues, because NumPy lacks some of ONNX's types. Strings are passed as arrays.
    """
    captured = {name: Captured.of(array) for name, array in inputs.items()}
    feeds = {name: _make_feed(ort, value) for name, value in captured.items()}
    outputs: dict[str, Value] = {}
    if any(value.element == STRING for value in captured.values()):  # `run_with_ort_values` accepts no arrays
        for name in names:  # one run for each, because a run fails if one of its outputs cannot be converted
            outputs |= _run_for_output(session, name, feeds)
        return outputs
    for name, result in zip(names, session.run_with_ort_values(list(names), feeds), strict=True):
        outputs |= {name: _from_ort(result)} if result.is_tensor() else _run_for_output(session, name, feeds)
    return outputs


def _make_feed(ort: Any, value: Captured) -> Any:
    """Return an input for an onnxruntime session: an array if it has strings, otherwise an OrtValue."""
    if value.element == STRING:
        return value.array()
    count = int(np.prod(value.shape, dtype=np.int64))
    width = max(1, BITS[value.element] // 8)
    # onnxruntime reads a byte or more for each element, even if elements are packed.
    data = np.zeros(count * width, np.uint8)
    data[: value.data.size] = value.data
    array = data.view(f"V{width}").reshape(value.shape)  # "V" is NumPy's type for elements of any bytes
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, value.element)  # the OrtValue keeps the array alive


def _run_for_output(session: Any, name: str, feeds: Mapping[str, Any]) -> dict[str, Value]:
    """Compute one output by `session.run`, which also accepts strings and returns sequences.

    The result maps the name to the output. It is empty if onnxruntime cannot convert the output to Python, or if the
    output is neither a tensor, a sequence, a map nor an empty optional.
    """
    try:
        (result,) = session.run([name], dict(feeds))
    except RuntimeError as error:
        if "No corresponding Numpy type" in str(error):
            return {}
        raise
    return {name: _from_python(result)} if isinstance(result, np.ndarray | list | dict | NoneType) else {}


def _from_python(value: Any) -> Value:
    """Convert an output of onnxruntime: a sequence to a tuple, a map to (keys, values), an empty optional to None."""
    if isinstance(value, list):
        return tuple(map(_from_python, value))
    if isinstance(value, dict):
        return tuple(_from_python(np.array(list(items))) for items in (value.keys(), value.values()))
    # `Captured` turns each array of strings into an array of objects.
    return Captured.of(value).array() if isinstance(value, np.ndarray) else None


def _from_ort(value: Any) -> npt.NDArray[Any]:
    """Convert a tensor in an OrtValue to an array of a type that `Captured.array` returns."""
    if value.data_type() == "tensor(string)":
        return Captured.of(value.numpy()).array()
    # The bytes are copied, because `numpy()` refuses types that NumPy lacks, such as bfloat16 and int4. The address of
    # a tensor without elements is 0.
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return Captured(np.frombuffer(data, np.uint8), tuple(value.shape()), value.element_type()).array()


def encode_strings(array: npt.NDArray[Any]) -> list[bytes]:
    """Return strings, or bytes, as bytes. Surrogates stand for bytes that are not UTF-8, which ONNX allows."""
    return [text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape") for text in array.flat]


def _pack_strings(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    packed = [_LENGTH.pack(len(data)) + data for data in encode_strings(array)]
    return np.frombuffer(b"".join(packed), np.uint8)


def _unpack_strings(data: npt.NDArray[np.uint8]) -> list[str]:
    texts, packed = [], BytesIO(data.tobytes())
    while length := packed.read(_LENGTH.size):
        texts.append(packed.read(*_LENGTH.unpack(length)).decode("utf-8", "surrogateescape"))
    return texts

"""onnxruntime's CPU execution provider, graph optimisations off (its EliminateSlice drops steps)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from onnx_ops.errors import MissingExtra, ModelError

NAME = "onnxruntime-cpu"


@dataclass(frozen=True)
class Captured:
    """The bytes of a tensor that a model computed.

    Attributes:
        data: Its elements, packed.
        shape: Its sizes.
        element: The number of its element type in TensorProto.
    """

    data: npt.NDArray[np.uint8]
    shape: tuple[int, ...]
    element: int

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Captured:
        """The bytes of an array."""
        flat = np.ascontiguousarray(array).reshape(-1)
        data = flat.view(np.uint8) if flat.size else np.zeros(0, np.uint8)
        return cls(data, array.shape, ir.DataType.from_numpy(array.dtype).value)

    def array(self) -> npt.NDArray[Any]:
        """The tensor, of whole bytes an element, as NumPy and ml_dtypes have its type."""
        return self.data.view(ir.DataType(self.element).numpy()).reshape(self.shape)


def load() -> Any:
    """The onnxruntime package, of any flavour.

    Raises:
        MissingExtra: None is installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra.of("onnxruntime", "onnxruntime", f"by the executor {NAME!r}") from None
    return onnxruntime


def version() -> str:
    """The version that runs."""
    return str(load().__version__)


def capture(
    proto: onnx.ModelProto, inputs: Mapping[str, npt.NDArray[Any]], names: Sequence[str], data_folder: str = ""
) -> dict[str, Captured]:
    """Run a model and keep the values of the main graph with the given names that are tensors, but not of strings.

    Args:
        proto: The model; its outputs are replaced.
        inputs: An array for each input.
        names: Values that nodes of the main graph write.
        data_folder: Where external data lie.

    Raises:
        ModelError: onnxruntime does not load or run the model.
    """
    ort = load()
    observed = onnx.ModelProto()
    observed.CopyFrom(proto)
    del observed.graph.output[:]
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if data_folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", data_folder)
    try:
        session = ort.InferenceSession(observed.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = {name: _to_ort(ort, array) for name, array in inputs.items()}
        results = session.run_with_ort_values(list(names), feeds)
    except Exception as error:  # onnxruntime has its own classes of errors, not derived from one another
        raise ModelError(f"onnxruntime cannot run the model ({' '.join(str(error).split())}).") from error
    found = zip(names, results, strict=True)
    return {
        name: _from_ort(result) for name, result in found if result.is_tensor() and "string" not in result.data_type()
    }


def _to_ort(ort: Any, array: npt.NDArray[Any]) -> Any:
    if array.dtype == object:
        return ort.OrtValue.ortvalue_from_numpy(array)
    element_type = ir.DataType.from_numpy(array.dtype).value
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.asarray(array, order="C"), element_type)


def _from_ort(value: Any) -> Captured:
    shape = tuple(value.shape())
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return Captured(np.frombuffer(data, np.uint8), shape, value.element_type())

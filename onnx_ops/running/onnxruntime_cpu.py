"""onnxruntime's CPU execution provider. It runs in a child of the sandbox, because a model can crash its process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from onnx_ops.model.read import to_bytes
from onnx_ops.running.whole_model import OnnxModel
from sliceport.defects.engines import ONNXRUNTIME_CPU as NAME
from sliceport.engines.registry import model_engines
from sliceport.engines.side import Side
from sliceport.errors import MissingExtra
from sliceport.wording import shorten


def load() -> Any:
    """Import onnxruntime and return the module.

    Raises:
        MissingExtra: onnxruntime is not installed, or cannot be loaded.
    """
    try:
        import onnxruntime
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime":
            raise MissingExtra.of("onnxruntime", "onnxruntime", f"by the executor {NAME!r}") from None
        reason = shorten(str(error)).rstrip(".")
        raise MissingExtra(f"the executor {NAME!r} needs onnxruntime, which cannot be loaded: {reason}.") from error
    return onnxruntime


def version() -> str:
    """Return the version of onnxruntime. See `load` for the errors."""
    return str(load().__version__)


def side(level: str = "none") -> Side:
    """Return onnxruntime's CPU provider as one side of a comparison.

    Args:
        level: The level of graph optimisation, a key of `session.LEVELS`. By default, optimisation is off, because
            onnxruntime's EliminateSlice removes some Slices with steps.
    """
    load()
    return Side(model_engines()[NAME], {"level": level})


def build_whole_model(proto: onnx.ModelProto, outputs: Sequence[str], data_folder: str = "") -> OnnxModel:
    """Return a model as engines take it: serialized, with the names of its outputs and of inputs without a default.

    Args:
        proto: The model.
        outputs: The names of the outputs to compute.
        data_folder: The folder of external data, or an empty string.

    Raises:
        ModelError: The model is too large; see `to_bytes`.
    """
    defaults = {tensor.name for tensor in proto.graph.initializer}  # inputs with a default need not be passed
    inputs = [value.name for value in proto.graph.input if value.name not in defaults]
    data = to_bytes(proto, "the model for onnxruntime")
    return OnnxModel("onnx", data, tuple(inputs), tuple(outputs), data_folder=data_folder)

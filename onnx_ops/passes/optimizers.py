"""Optimizers of whole graphs that others have written, called in a worker process."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Sequence

import onnx
import onnx_ir as ir

from onnx_ops.check import REPLACEABLE_VERSION
from sliceport import guarded
from sliceport.errors import MissingExtra, ModelError, unknown_name

_SECONDS = 60.0
_SECONDS_PER_BYTE = 50e-6
_MEMORY = 2**30
_MEMORY_PER_BYTE = 256
ONNXSCRIPT, ONNXSLIM = "onnxscript", "onnxslim"
OPTIMIZERS = (ONNXSCRIPT, ONNXSLIM)
"""What `run_optimizer` takes, by the packages; the first is installed with sliceport."""


def check_optimizers(names: Sequence[str]) -> None:
    """Whether `run_optimizer` can run them all.

    Raises:
        UsageError: One is not known.
        MissingExtra: One is not installed.
    """
    for name in names:
        if name not in OPTIMIZERS:
            raise unknown_name("optimizer", name, OPTIMIZERS)
        if importlib.util.find_spec(name) is None:
            raise MissingExtra.of(name, name, "to simplify by it")


def run_optimizer(name: str, model: ir.Model) -> ir.Model:
    """A model as an optimizer makes it.

    Args:
        name: One of `OPTIMIZERS`.
        model: The model, with no weights; it is not changed.

    Raises:
        ModelError: The optimizer fails, takes too much time or memory, or makes an invalid model of a valid one.
    """
    try:
        serialized = ir.serde.serialize_model(model).SerializeToString()
        optimized = guarded.call(
            run_checked,
            _FUNCTIONS[name],
            serialized,
            timeout=_SECONDS + _SECONDS_PER_BYTE * len(serialized),
            memory=_MEMORY + _MEMORY_PER_BYTE * len(serialized),
        )
        return ir.serde.deserialize_model(onnx.ModelProto.FromString(optimized))
    except (guarded.WorkerDied, MemoryError) as error:
        raise ModelError(f"it cannot be simplified by {name}: its process {error or 'ran out of memory'}.") from None
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ModelError(f"it cannot be simplified by {name}: {reason or type(error).__name__}.") from error


def run_checked(function: Callable[[bytes], bytes], model: bytes) -> bytes:
    """Call a function of a serialized model.

    Raises:
        ValueError: It makes an invalid model of a valid one.
    """
    was_valid = _complain(model) is None
    made = function(model)
    complaint = _complain(made) if was_valid else None
    if complaint is not None:
        raise ValueError(f"it makes an invalid model of it: {complaint}")
    return made


def _complain(model: bytes) -> str | None:
    """What onnx's checker finds; None where it finds nothing."""
    proto = onnx.ModelProto.FromString(model)
    proto.ir_version = max(proto.ir_version, REPLACEABLE_VERSION)  # before, it wants each initializer to be an input
    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        return str(error)
    return None


def by_onnxscript(model: bytes) -> bytes:
    """A serialized model as onnxscript's optimizer makes it."""
    from onnxscript import optimizer

    logging.disable(logging.WARNING)
    graph = ir.serde.deserialize_model(onnx.ModelProto.FromString(model))
    optimizer.optimize_ir(graph)
    serialized: bytes = ir.serde.serialize_model(graph).SerializeToString()
    return serialized


def by_onnxslim(model: bytes) -> bytes:
    """A serialized model as OnnxSlim makes it."""
    import onnxslim

    logging.disable(logging.WARNING)
    serialized: bytes = onnxslim.slim(onnx.ModelProto.FromString(model)).SerializeToString()
    return serialized


_FUNCTIONS: dict[str, Callable[[bytes], bytes]] = {ONNXSCRIPT: by_onnxscript, ONNXSLIM: by_onnxslim}

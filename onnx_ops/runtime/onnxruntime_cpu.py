"""onnxruntime's CPU execution provider, in a child of the sandbox: a model can crash the process that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy.typing as npt
import onnx

from onnx_ops.runtime import session
from onnx_ops.runtime.session import Captured, Job, Value
from sliceport.errors import MissingExtra, ModelError
from sliceport.sandbox import supervisor

__all__ = ["NAME", "Captured", "Exhausted", "bounded", "capture", "load", "run", "version"]

NAME = "onnxruntime-cpu"
_BOUNDED_SECONDS = 60.0
_timeout: ContextVar[float | None] = ContextVar("timeout", default=None)


class Exhausted(ModelError):
    """A run within `bounded` took too much time or memory."""


@contextmanager
def bounded() -> Iterator[None]:
    """Limit the time of runs inside the context, because a Loop may never end on invented inputs."""
    token = _timeout.set(_BOUNDED_SECONDS)
    try:
        yield
    finally:
        _timeout.reset(token)


def load() -> Any:
    """Import the onnxruntime package, of any flavour.

    Raises:
        MissingExtra: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra.of("onnxruntime", "onnxruntime", f"by the executor {NAME!r}") from None
    return onnxruntime


def version() -> str:
    """Return the version of onnxruntime."""
    return str(load().__version__)


def run(
    proto: onnx.ModelProto,
    inputs: Mapping[str, npt.NDArray[Any]],
    names: Sequence[str],
    data_folder: str = "",
    *,
    is_optimized: bool = False,
) -> dict[str, Value]:
    """Run a model and return the outputs with the given names.

    Args:
        proto: The model.
        inputs: An array for each input.
        names: Names of outputs.
        data_folder: The folder of external data.
        is_optimized: Whether onnxruntime optimises the graph first; its EliminateSlice drops steps.

    Raises:
        ModelError: onnxruntime does not load or run the model, or crashes.
        Exhausted: The run takes too much time or memory within `bounded`.
        MissingExtra: onnxruntime is not installed.
    """
    load()
    feeds = {name: Captured.of(array) for name, array in inputs.items()}
    job = Job(_serialize(proto), feeds, tuple(names), data_folder, "all" if is_optimized else "none")
    timeout = _timeout.get()
    try:
        outputs: dict[str, Value] = supervisor.call(session.run, job, timeout=timeout)
    except session.NotRun as error:
        raise ModelError(f"onnxruntime cannot run the model ({error}).") from None
    except MemoryError:
        if timeout is None:
            raise
        raise Exhausted("onnxruntime takes more memory than there is to run the model.") from None
    except supervisor.ChildTimedOut:
        raise Exhausted(f"onnxruntime takes more than {timeout:g} s to run the model.") from None
    except supervisor.ChildLost:  # a ChildDied that the model did not cause
        raise
    except supervisor.ChildDied as error:
        raise ModelError(f"onnxruntime cannot run the model: its process {error}.") from None
    return outputs


def _serialize(proto: onnx.ModelProto) -> bytes:
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # protobuf's own, for more than 2 GiB
        raise ModelError(f"the model cannot be handed to onnxruntime ({' '.join(str(error).split())}).") from None


def capture(
    proto: onnx.ModelProto, inputs: Mapping[str, npt.NDArray[Any]], names: Sequence[str], data_folder: str = ""
) -> dict[str, Captured]:
    """Run a model without optimisation and return the tensors among the named values of the main graph.

    Args:
        proto: The model; its outputs are replaced.
        inputs: An array for each input.
        names: Names of node outputs of the main graph.
        data_folder: The folder of external data.

    Raises:
        ModelError: See `run`.
    """
    observed = onnx.ModelProto()
    observed.CopyFrom(proto)
    del observed.graph.output[:]
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    outputs = run(observed, inputs, names, data_folder)
    return {name: value for name, value in outputs.items() if isinstance(value, Captured)}

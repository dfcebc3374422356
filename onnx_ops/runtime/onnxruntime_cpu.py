"""onnxruntime's CPU execution provider, in a worker process: a model can end, block or exhaust the one it runs in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx

from onnx_ops.model.external_data import count_file_bytes
from onnx_ops.runtime import session
from onnx_ops.runtime.session import Captured, Job, Value
from sliceport import guarded
from sliceport.errors import MissingExtra, ModelError
from sliceport.limits import lifted

__all__ = ["NAME", "Captured", "Exhausted", "capture", "load", "run", "version"]

NAME = "onnxruntime-cpu"
SECONDS, SECONDS_FOR_EACH_MIB = 60.0, 0.1
"""How long a run may take, by the size of the model and its inputs: an endless Loop ends. In docs/cli.md, too."""
MEMORY, MEMORY_FOR_EACH_BYTE, MEMORY_FOR_EACH_CORE = 2**30, 32, 2**27
"""How much memory it may take, by the same size and the threads that onnxruntime starts."""


class Exhausted(ModelError):
    """A run took more time or memory than it may."""


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
        ModelError: onnxruntime does not load or run the model, or ends of it.
        Exhausted: It takes more time or memory than it may.
        MissingExtra: onnxruntime is not installed.
    """
    load()
    feeds = {name: Captured.of(array) for name, array in inputs.items()}
    job = Job(_serialize(proto), feeds, tuple(names), data_folder, is_optimized)
    size = len(job.model) + count_file_bytes(proto, data_folder) + sum(value.data.size for value in feeds.values())
    seconds = round(SECONDS + SECONDS_FOR_EACH_MIB * size / 2**20, 1)
    memory = MEMORY + MEMORY_FOR_EACH_BYTE * size + MEMORY_FOR_EACH_CORE * (os.cpu_count() or 1)
    try:
        with lifted():
            found: dict[str, Value] = guarded.call(session.run, job, timeout=seconds, memory=memory)
    except session.NotRun as error:
        raise ModelError(f"onnxruntime cannot run the model ({error}).") from None
    except MemoryError:
        raise Exhausted(f"onnxruntime takes more than {memory / 2**30:.1f} GiB to run the model.") from None
    except guarded.WorkerTimedOut:
        raise Exhausted(f"onnxruntime takes more than {seconds:g} s to run the model.") from None
    except guarded.WorkerDied as error:
        raise ModelError(f"onnxruntime cannot run the model: its process {error}.") from None
    return found


def _serialize(proto: onnx.ModelProto) -> bytes:
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # protobuf's own, for more than 2 GiB
        raise ModelError(f"the model cannot be handed to onnxruntime ({' '.join(str(error).split())}).") from None


def capture(
    proto: onnx.ModelProto, inputs: Mapping[str, npt.NDArray[Any]], names: Sequence[str], data_folder: str = ""
) -> dict[str, Captured]:
    """Run a model, optimisation off, and keep the values of the main graph with the given names that are tensors.

    Args:
        proto: The model; its outputs are replaced.
        inputs: An array for each input.
        names: Values that nodes of the main graph write.
        data_folder: The folder of external data.

    Raises:
        ModelError: See `run`.
    """
    observed = onnx.ModelProto()
    observed.CopyFrom(proto)
    del observed.graph.output[:]
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    found = run(observed, inputs, names, data_folder)
    return {name: value for name, value in found.items() if isinstance(value, Captured)}

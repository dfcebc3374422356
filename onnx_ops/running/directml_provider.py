"""onnxruntime's DirectML execution provider as an engine. Importing this module loads neither NumPy nor onnx."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from sliceport.defects.engines import ONNXRUNTIME_DML
from sliceport.engines.engine import SingleNode, Value, WholeModel
from sliceport.errors import UsageError
from sliceport.sandbox.progress import announce

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sliceport.device import Device, NodeRun

    Array = npt.NDArray[Any]

TIMEOUT = 600.0
"""Limit in seconds for one call of the host program."""


class OnnxruntimeDML:
    """onnxruntime's DirectML execution provider. The CPU may run nodes in `run_model`, but not in `run_node`.

    Args:
        device: The device that runs whole models. By default, all calls for an adapter share a device.
    """

    name = ONNXRUNTIME_DML
    description = "each node on onnxruntime's DirectML provider"
    formats = model_formats = ("onnx",)
    options: Mapping[str, str] = {"device_id": "the number of the adapter on Windows, 0 by default"}
    is_isolated = True

    def __init__(self, device: Device | None = None) -> None:
        self._device = device

    def version(self) -> str:
        """Return the version of onnxruntime to which the provider belongs. See `open_provider` for the errors."""
        return str((self._device or _shared_device(None)).facts()["onnxruntime"])

    def run_node(self, node: SingleNode, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """Run a node alone, as an ONNX model, on the device that all engines for single nodes share; see `NodeEngine`.

        Raises:
            DeviceError: The provider refuses the node, or the program that hosts DirectML failed or is not installed.
        """
        import numpy as np

        from onnx_ops.running.one_node import element_dtype, output_names
        from sliceport.engines.directml import shared_device

        resolved = node.lowered.resolved
        array = data.view(element_dtype(resolved.element)).reshape(resolved.cuts[0].region.input_shape)
        names = output_names(resolved)
        results = shared_device().run_onnx(node.model.SerializeToString(), {"data": array}, names)
        return [np.ascontiguousarray(result).reshape(-1).view(np.uint8) for result in results]

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:
        """Run a model on DirectML once; see `run_and_place`."""
        # In a search, many parts of a model fail, and retries would run each of them at least twice.
        with self._open(options).without_retries():
            return self.run_and_place(model, inputs, options)[0]

    def run_and_place(
        self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]
    ) -> tuple[dict[str, Value], list[NodeRun]]:
        """Run a model on DirectML; see `PlacesNodes`. The CPU runs nodes that the provider does not support.

        A request that fails is repeated on a fresh host, and a failure that does not occur again is announced. If the
        engine was made with a device, the option `device_id` has no effect.

        Raises:
            DeviceError: The provider refuses the model, the program that hosts DirectML failed, or a file of weights is
                too short.
            UsageError: `device_id` is not a number.
        """
        from onnx_ops.running.runnable import find_weights

        device = self._open(options)
        device.transient.clear()
        results, nodes = device.trace_onnx(model.data, inputs, model.outputs, weights=find_weights(model))
        for failure in dict.fromkeys(device.transient):
            announce(f"a request to DirectML failed once, but succeeded on a fresh host ({failure.rstrip('.')})")
        return dict(zip(model.outputs, results, strict=True)), nodes

    def _open(self, options: Mapping[str, str]) -> Device:
        """Return the device that runs models with these options."""
        adapter = options.get("device_id")
        if adapter is not None and not (adapter.isascii() and adapter.isdigit()):
            raise UsageError(f"{self.name} takes the number of an adapter as device_id, got {adapter!r}.")
        return self._device or _shared_device(adapter)

    def script(self, options: Mapping[str, str]) -> str:
        """Return Python code that runs the model in the file `path`; see `WritesScript`."""
        provider = ("DmlExecutionProvider", dict(options)) if options else "DmlExecutionProvider"
        return (
            "import onnxruntime as ort  # pip install onnxruntime-directml\n"
            "options = ort.SessionOptions()\n"
            "# onnxruntime itself rewrites nothing, so that the provider gets the nodes of the model.\n"
            "options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL\n"
            "options.enable_mem_pattern = False  # the DirectML provider does not support memory patterns\n"
            f"session = ort.InferenceSession(path, options, providers=[{provider!r}])\n"
            "assert 'DmlExecutionProvider' in session.get_providers(), 'this onnxruntime has no DirectML'\n"
            "got = session.run(None, inputs)\n"
        )


def open_provider(adapter: str | None = None) -> Device:
    """Open a device to run whole models on. It retries failed calls, except within `Device.without_retries`.

    Args:
        adapter: The number of the adapter on Windows; None for the one that `SLICEPORT_ADAPTER` selects.

    Raises:
        DeviceError: DirectML is not installed, or cannot run on this machine.
    """
    from sliceport import device
    from sliceport.device.windows import ADAPTER

    environment = None if adapter is None else {ADAPTER: adapter}
    return device.open(timeout=TIMEOUT, retries=True, environment=environment)


@cache
def _shared_device(adapter: str | None) -> Device:
    """Return the device that all calls for an adapter share. It is closed when this process ends."""
    device = open_provider(adapter)
    atexit.register(device.close)
    return device

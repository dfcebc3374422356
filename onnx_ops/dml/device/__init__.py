"""The real DirectML, and onnxruntime's DirectML provider: on Windows, and on Linux without a GPU.

    with onnx_ops.dml.device.open() as device:
        device.create_operator(operator)        # 0, or DirectML's HRESULT
        device.run(operator, data)
        device.run_onnx(model, inputs, outputs)

On Linux DirectML.dll runs in Wine over Mesa's lavapipe (Vulkan on the CPU); `sliceport directml install` sets that up.
"""

from __future__ import annotations

from onnx_ops.dml.device.client import Device, NodeRun
from onnx_ops.dml.device.errors import CallFailed, DeviceError, HostDied
from onnx_ops.dml.device.install import host_command

__all__ = ["CallFailed", "Device", "DeviceError", "HostDied", "NodeRun", "open"]

TIMEOUT = 120.0


def open(*, full: bool = False, timeout: float = TIMEOUT) -> Device:  # noqa: A001 - `device.open()` is what one says
    """The device; its host program starts with the first request.

    Args:
        full: The full edition, which has every operator of DirectML.
        timeout: Seconds that one request may take.

    Raises:
        DeviceError: It is not installed.
    """
    return Device(host_command(full=full), timeout)

"""The real DirectML, and onnxruntime's DirectML provider: on Windows, and on Linux without a GPU.

    with sliceport.directml.device.open() as device:
        device.create_operator(operator)        # 0, or DirectML's HRESULT
        device.run(operator, data)
        device.run_onnx(model, inputs, outputs)

On Linux DirectML.dll runs in Wine over Mesa's lavapipe (Vulkan on the CPU); `sliceport directml install` sets that up.
"""

from __future__ import annotations

from collections.abc import Mapping

from sliceport.directml.device.client import Device, NodeRun
from sliceport.directml.device.errors import CallFailed, DeviceError, HostDied, HostTimedOut
from sliceport.directml.device.install import host_command

__all__ = ["CallFailed", "Device", "DeviceError", "HostDied", "HostTimedOut", "NodeRun", "open"]

TIMEOUT = 120.0


def open(  # noqa: A001 - `device.open()` is what one says
    *,
    full: bool = False,
    timeout: float = TIMEOUT,
    retries: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Device:
    """The device; its host program starts with the first request.

    Args:
        full: The full edition, which has every operator of DirectML.
        timeout: Seconds that one request may take.
        retries: Whether a request that fails is asked again on a fresh host, which tells what the device refuses from
            what only happened once.
        environment: Variables for the host program, beside those that this process has now.

    Raises:
        DeviceError: It is not installed.
    """
    return Device(host_command(full=full), timeout, retries=retries, environment=environment)

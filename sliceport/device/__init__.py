"""The real DirectML, and onnxruntime's DirectML provider: on Windows, and on Linux without a GPU.

    with sliceport.device.open() as device:
        device.create_operator(operator)        # 0, or DirectML's HRESULT
        device.run(operator, data)
        device.run_onnx(model, inputs, outputs)

On Linux DirectML.dll runs in Wine over Mesa's lavapipe (Vulkan on the CPU); `sliceport directml install` sets that up.
"""

from __future__ import annotations

from collections.abc import Mapping

from sliceport.device.client import TIMEOUT, Device
from sliceport.device.errors import CallFailed, DeviceError, HostDied, HostTimedOut
from sliceport.device.install import host_command
from sliceport.device.session import NodeRun, StoredTensor

__all__ = [
    "CallFailed", "Device", "DeviceError", "HostDied", "HostTimedOut", "NodeRun", "StoredTensor", "open",
]  # fmt: skip


def open(  # noqa: A001 - callers write `device.open()`
    *, timeout: float = TIMEOUT, retries: bool = False, environment: Mapping[str, str] | None = None
) -> Device:
    """Return a device; its host program starts with the first request.

    Args:
        timeout: Time limit per request in seconds; up to 10 times as long if the machine is busy.
        retries: Whether to repeat a failed request on a fresh host, to tell a refusal from a transient failure.
        environment: Variables for the host program, in addition to those of this process.

    Raises:
        DeviceError: DirectML is not installed, or cannot run on this machine.
    """
    return Device(host_command(), timeout, retries=retries, environment=environment)

"""What can go wrong with a device."""

from __future__ import annotations

from onnx_ops.errors import SliceportError


class DeviceError(SliceportError):
    """The device cannot be installed, started or asked."""


class HostDied(DeviceError):
    """The host program ended or did not answer in time; the next request starts it again."""


class CallFailed(DeviceError):
    """DirectML, Direct3D or onnxruntime refused a call.

    Attributes:
        call: The function that failed.
        hresult: What it answered, as an unsigned 32-bit number.
        message: What it said, where it said something.
    """

    def __init__(self, call: str, hresult: int, message: str) -> None:
        text = f": {' '.join(message.split())}" if message else ""
        super().__init__(f"{call} failed with 0x{hresult:08x}{text}.")
        self.call, self.hresult, self.message = call, hresult, message

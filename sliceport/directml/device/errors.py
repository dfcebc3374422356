"""What can go wrong with a device."""

from __future__ import annotations

import re

from sliceport.errors import SliceportError

_PLACE = re.compile(r"\S+\(\d+\)\\\S+![0-9A-F]+: (\(caller: [0-9A-F]+\) )?Exception\(\d+\) tid\([0-9a-f]+\) ")
"""Where in its own source and memory onnxruntime was: not for people."""


class DeviceError(SliceportError):
    """The device cannot be installed, started or asked."""


class HostDied(DeviceError):
    """The host program ended or did not answer in time; the next request starts it again."""


class HostTimedOut(HostDied):
    """The host program did not answer in time."""


class CallFailed(DeviceError):
    """DirectML, Direct3D or onnxruntime refused a call.

    Attributes:
        call: The function that failed.
        hresult: What it answered, as an unsigned 32-bit number.
        message: What it said, where it said something.
    """

    def __init__(self, call: str, hresult: int, message: str) -> None:
        said = " ".join(_PLACE.sub("", message).split()).rstrip(".")
        text = f": {said}" if said else ""
        super().__init__(f"{call} failed with 0x{hresult:08x}{text}.")
        self.call, self.hresult, self.message = call, hresult, message

"""Errors of a device."""

from __future__ import annotations

import re

from sliceport.errors import SliceportError

_SOURCE_POSITION = re.compile(r"\S+\(\d+\)\\\S+![0-9A-F]+: (\(caller: [0-9A-F]+\) )?Exception\(\d+\) tid\([0-9a-f]+\) ")
"""The position in onnxruntime's source and memory that precedes its messages."""


class DeviceError(SliceportError):
    """The device cannot be installed or started, or a request cannot be sent to it."""


class HostDied(DeviceError):
    """The host program ended or did not answer in time; the next request starts it again."""


class HostTimedOut(HostDied):
    """The host program did not answer in time."""


class CallFailed(DeviceError):
    """DirectML, Direct3D or onnxruntime refused a call.

    Attributes:
        call: The function that failed.
        hresult: Its result, as an unsigned 32-bit number.
        message: The library's message, or an empty str.
        kind: The kind of the `Failure` of a run: `adapter` if the adapter cannot compile the shader of a node, which
            another adapter may compile, else `error`.
    """

    def __init__(self, call: str, hresult: int, message: str) -> None:
        reason = " ".join(_SOURCE_POSITION.sub("", message).split()).rstrip(".")
        text = f": {reason}" if reason else ""
        super().__init__(f"{call} failed with 0x{hresult:08x}{text}.")
        self.call, self.hresult, self.message = call, hresult, message
        self.kind = "adapter" if "80004005 Call failed" in message else "error"  # only the message tells

    def __reduce__(self) -> tuple[type[CallFailed], tuple[str, int, str]]:
        return type(self), (self.call, self.hresult, self.message)  # pickle would pass only the text in `args`

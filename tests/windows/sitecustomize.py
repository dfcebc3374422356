"""Make DirectML start on the Direct3D of Wine, whose EnumerateMetaCommands is not implemented.

Devices share one table of methods, so that its entry is replaced once a process, with a method that finds no commands.
"""

import ctypes
import sys
import uuid
from typing import Any

_ENUMERATE_META_COMMANDS = 59
_READ_WRITE_EXECUTE = 0x40


def _find_none(this: int, count: Any, descriptions: int) -> int:
    if count:
        count[0] = 0
    return 0


_METHOD = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_void_p)(_find_none)


def _patch() -> None:
    if sys.platform != "win32":
        return
    created = ctypes.c_void_p()
    interface = uuid.UUID("8b4f173b-2fea-4b80-8f58-4307191ab95d").bytes_le  # ID3D12Device5
    if ctypes.WinDLL("d3d12.dll").D3D12CreateDevice(None, 0xB000, interface, ctypes.byref(created)) < 0:
        return
    table = ctypes.c_void_p.from_address(created.value or 0).value or 0
    entry = table + 8 * _ENUMERATE_META_COMMANDS
    before = ctypes.c_ulong()
    protect = ctypes.WinDLL("kernel32").VirtualProtect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong, ctypes.c_void_p)
    protect(entry, 8, _READ_WRITE_EXECUTE, ctypes.byref(before))
    ctypes.c_void_p.from_address(entry).value = ctypes.cast(_METHOD, ctypes.c_void_p).value


class _PatchFirst:
    """A finder that finds nothing, and patches the device before the module that calls it is loaded."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "sliceport.device.direct3d":
            sys.meta_path.remove(self)
            _patch()


sys.meta_path.insert(0, _PatchFirst())

"""IDMLDevice::CreateOperator of DirectML's own library, without a GPU, Wine or a display.

On Windows DirectML.dll creates the operators. On Linux `libdirectml.so` from the wheel of torch-directml creates them.
The wheel also contains empty stand-ins for the two libraries that `libdirectml.so` links to. COM objects written with
ctypes replace a DXCore factory, an adapter and an ID3D12Device. These objects are enough to create operators, which
validates their descriptors, but not to compile them.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sliceport.device.com import IDML_DEVICE, OperatorFactory, create
from sliceport.device.direct3d import Direct3DDevice
from sliceport.device.errors import DeviceError
from sliceport.device.libraries import FOR_LINUX
from sliceport.directml.abi import to_native
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.operators import Operator
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildDied, ChildLost

_LIBRARY, *_STAND_INS = FOR_LINUX.libraries
_E_NOTIMPL, _E_NOINTERFACE = -0x7FFFBFFF, -0x7FFFBFFE  # signed, as C returns an HRESULT
_FEATURES = {
    0: {0: 1},  # OPTIONS: DoublePrecisionFloatShaderOps
    2: {4: 0xC100},  # FEATURE_LEVELS: D3D_FEATURE_LEVEL_12_1
    23: {2: 1},  # OPTIONS4: Native16BitShaderOpsSupported
}
"""Answers of ID3D12Device::CheckFeatureSupport, by D3D12_FEATURE: the 32-bit words of each struct to set.

The library has set all other words: to 0, or to the highest shader model that it knows.
"""
_METHOD_COUNT = 100
"""Methods of each COM object, more than ID3D12Device has, so that calls beyond them return E_NOTIMPL, not crash."""
_MASK = 0xFFFFFFFF

_METHOD = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
"""A COM method. If the real method has fewer arguments, the last arguments here are whatever the registers hold."""
_Method = Callable[[int, int, int, int], int]


def missing_requirement() -> str | None:
    """Return what this machine lacks for the library, as part of a sentence; None if it lacks nothing."""
    if sys.platform == "win32":
        return None
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"this machine is {sys.platform} on {platform.machine()}, and the library is for x86-64 Linux"
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return "the C library is not glibc, which the library needs"
    return None


def create_operator(library_folder: Path, operator: Operator) -> int:
    """Call IDMLDevice::CreateOperator in a child process, and return its HRESULT, 0 for success.

    Raises:
        DeviceError: The library cannot be used on this machine, or it crashed.
        InvalidDescriptor: A number does not fit its field.
        ChildLost: The machine ended the child process or could not start it.
    """
    return _call_in_child(_create_operator, library_folder, operator)


def title(library_folder: Path) -> str:
    """Return the name of the library and its highest feature level. The library does not report a version.

    Raises:
        DeviceError: The library cannot be used on this machine, or it crashed.
        ChildLost: The machine ended the child process or could not start it.
    """
    return f"DirectML at feature level {FeatureLevel(_call_in_child(_feature_level, library_folder))}"


def _call_in_child(function: Callable[..., int], library_folder: Path, *args: Operator) -> int:
    """Call a function in a child process, because the library may crash. Errors are those of `create_operator`."""
    try:
        return int(supervisor.call(function, library_folder, *args))
    except ChildLost:  # a ChildDied whose cause is the machine, not the library
        raise
    except ChildDied as error:
        raise DeviceError(f"the process of DirectML's library {error}.") from None
    except OSError as error:
        raise DeviceError(f"DirectML's library cannot be used in a process of this machine ({error}).") from None


def _create_operator(library_folder: Path, operator: Operator) -> int:
    native = to_native(operator)
    return _operator_factory(library_folder).try_operator(native.address)


def _feature_level(library_folder: Path) -> int:
    return _operator_factory(library_folder).feature_level()


@functools.cache
def _operator_factory(library_folder: Path) -> OperatorFactory:
    """Return the device of this process that creates operators: a `Direct3DDevice` on Windows, else a `Validator`."""
    return Direct3DDevice(library_folder) if sys.platform == "win32" else Validator(library_folder)


class Validator(OperatorFactory):
    """A DirectML device that creates operators and cannot run them.

    Args:
        library_folder: The folder of the library and its stand-ins.

    Raises:
        OSError: The library cannot be loaded or changed in memory.
        CallFailed: The library does not create a device.
    """

    def __init__(self, library_folder: Path) -> None:
        # IDXCoreAdapter: GetProperty and GetPropertySize
        adapter = _ComObject({6: _get_adapter_property, 7: _get_adapter_property_size})
        factory = _ComObject({4: lambda *args: _return_object(args[3], adapter)})  # GetAdapterByLuid
        # DXCoreCreateAdapterFactory, whose arguments are an interface and an out pointer
        create_factory = _METHOD(lambda *args: _return_object(args[1], factory))
        # ID3D12Device: CheckFeatureSupport, GetDeviceRemovedReason, and GetAdapterLuid. There is one adapter, so any
        # number is right.
        device = _ComObject({13: _check_feature_support, 37: lambda *_: 0, 43: _return_1})
        # ctypes does not keep objects alive that only C code points to.
        self._referenced: list[Any] = [adapter, factory, create_factory, device]
        library = self._load(library_folder, create_factory)
        # device, flags, minimum feature level, interface
        arguments = (device.address, 0, int(FeatureLevel.V1_0), IDML_DEVICE)
        super().__init__(create(library.DMLCreateDevice1, "DMLCreateDevice1", *arguments))

    def _load(self, library_folder: Path, create_factory: Any) -> ctypes.CDLL:
        """Load the library, which links to the stand-ins by their bare names, and redirect its call for a factory.

        The stand-ins have no DT_SONAME, and glibc does not search their folder. But glibc takes a loaded library whose
        path equals the name, so each stand-in gets its bare name as its path while the library loads.
        """
        original_names: list[tuple[_LinkMap, int]] = []
        try:
            for name in _STAND_INS:
                stand_in = ctypes.CDLL(str(library_folder / name))
                link_map = _LinkMap.from_address(stand_in._handle)  # in glibc a handle points to the link_map
                bare_name = ctypes.create_string_buffer(name.encode())
                self._referenced += [stand_in, bare_name]
                original_names.append((link_map, link_map.l_name))
                link_map.l_name = ctypes.addressof(bare_name)
            library = ctypes.CDLL(str(library_folder / _LIBRARY))
        finally:
            for link_map, original_name in original_names:
                link_map.l_name = original_name
        # After the loop, `stand_in` is the last of `_STAND_INS`, libdxcore.so.
        _redirect(stand_in.DXCoreCreateAdapterFactory, create_factory)
        return library


class _LinkMap(ctypes.Structure):
    """The head of glibc's struct link_map, as in <link.h>."""

    _fields_ = (("l_addr", ctypes.c_size_t), ("l_name", ctypes.c_void_p))


class _ComObject:
    """A COM object at `address` whose methods are Python functions. It lives as long as this value.

    Args:
        methods: The functions by their positions in the table of methods. All other methods return E_NOTIMPL.
    """

    def __init__(self, methods: dict[int, _Method]) -> None:
        # QueryInterface, AddRef and Release
        all_methods: dict[int, _Method] = {0: _refuse_interface, 1: _return_1, 2: _return_1, **methods}
        self._methods = [_METHOD(all_methods.get(i, lambda *_: _E_NOTIMPL)) for i in range(_METHOD_COUNT)]
        addresses = (ctypes.cast(method, ctypes.c_void_p).value for method in self._methods)
        self._table = (ctypes.c_void_p * _METHOD_COUNT)(*addresses)
        self._object = ctypes.c_void_p(ctypes.addressof(self._table))
        self.address = ctypes.addressof(self._object)


def _refuse_interface(this: int, interface: int, out: int, _: int) -> int:  # noqa: ARG001
    """Answer QueryInterface. The library asks only for ID3D12Device5, which the device lacks."""
    ctypes.c_void_p.from_address(out).value = None
    return _E_NOINTERFACE


def _return_object(out: int, result: _ComObject) -> int:
    """Store the address of an object at the address `out`, and return S_OK."""
    ctypes.c_void_p.from_address(out).value = result.address
    return 0


def _return_1(*_: int) -> int:
    return 1


def _check_feature_support(this: int, feature: int, data: int, _: int) -> int:  # noqa: ARG001
    """Answer ID3D12Device::CheckFeatureSupport for a device that has the features in `_FEATURES`."""
    # The upper half of the register of a 32-bit argument is undefined.
    for index, word in _FEATURES.get(feature & _MASK, {}).items():
        ctypes.c_uint32.from_address(data + 4 * index).value = word
    return 0


def _get_adapter_property(this: int, name: int, size: int, data: int) -> int:  # noqa: ARG001
    """Answer IDXCoreAdapter::GetProperty. Every property is 0."""
    ctypes.memset(data, 0, size)
    return 0


def _get_adapter_property_size(this: int, name: int, out: int, _: int) -> int:  # noqa: ARG001
    """Answer IDXCoreAdapter::GetPropertySize, which the library calls only for a text, here an empty one."""
    ctypes.c_size_t.from_address(out).value = 1
    return 0


def _redirect(function: Any, replacement: Any) -> None:
    """Overwrite the start of a function with a jump to `replacement`. Raise OSError if `function` stays read-only."""
    if sys.platform == "win32":  # Windows needs no replacement, and its mmap lacks PROT_READ
        raise NotImplementedError
    address, target = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in (function, replacement))
    code = b"\x48\xb8" + target.to_bytes(8, "little") + b"\xff\xe0"  # mov rax, target; jmp rax
    page = address & -mmap.PAGESIZE
    length = address + len(code) - page
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(page, length, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), f"mprotect: {os.strerror(ctypes.get_errno())}")
    ctypes.memmove(address, code, len(code))
    protect(page, length, mmap.PROT_READ | mmap.PROT_EXEC)

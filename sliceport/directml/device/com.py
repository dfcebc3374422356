"""Calls of COM methods, and a DirectML device that creates operators."""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Callable
from typing import Any

from sliceport.directml.device.errors import CallFailed
from sliceport.directml.feature_levels import FeatureLevel

IDML_DEVICE = uuid.UUID("6dbd6437-96fd-423f-a98c-ae5e7c2a573f").bytes_le
_IDML_OPERATOR = uuid.UUID("26caae7a-3081-4633-9581-226fbe57695d").bytes_le
_MASK = 0xFFFFFFFF
_FAILURE = 0x80000000
_RELEASE, _CHECK_FEATURE_SUPPORT, _CREATE_OPERATOR = 2, 7, 8
"""Positions in tables of methods: IUnknown::Release, IDMLDevice::CheckFeatureSupport and IDMLDevice::CreateOperator.

The table of an IDMLDevice begins with the methods of IUnknown and IDMLObject.
"""
_FEATURE_LEVELS = 1  # DML_FEATURE_FEATURE_LEVELS


def call_method(this: int, slot: int, *args: int | bytes) -> int:
    """Call a COM method by its position in the table of methods.

    Every argument is passed as 64 bits. If the method expects 32 bits, it ignores the upper half.

    Returns:
        The lower 32 bits of the result, as an unsigned number.
    """
    table = ctypes.c_void_p.from_address(this).value or 0
    address = ctypes.c_void_p.from_address(table + 8 * slot).value or 0
    types = (ctypes.c_char_p if isinstance(arg, bytes) else ctypes.c_uint64 for arg in args)
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, *types)(address)
    return int(function(this, *args)) & _MASK


class ComObject:
    """A reference to a COM object, which is released with this value.

    Attributes:
        address: The address of the object.
    """

    def __init__(self, address: int) -> None:
        self.address = address

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # The methods may be Python functions, which cannot be called at exit.
            call_method(self.address, _RELEASE)

    def call(self, name: str, slot: int, *args: int | bytes) -> None:
        """Call a method that returns an HRESULT.

        Args:
            name: Name of the method in messages.
            slot: Its position in the table of methods.
            args: Its arguments.

        Raises:
            CallFailed: The method failed.
        """
        check(name, call_method(self.address, slot, *args))

    def create(self, name: str, slot: int, *args: int | bytes) -> ComObject:
        """Call a method that stores an object through its last argument. `args` are the arguments before it.

        Raises:
            CallFailed: The method failed.
        """
        created = ctypes.c_void_p()
        self.call(name, slot, *args, ctypes.addressof(created))
        return ComObject(created.value or 0)


def create(function: Any, name: str, *args: int | bytes) -> ComObject:
    """Call a library function that stores an object through its last argument. `args` are the arguments before it.

    Raises:
        CallFailed: The function failed.
    """
    types = (ctypes.c_char_p if isinstance(arg, bytes) else ctypes.c_uint64 for arg in args)
    function.argtypes = [*types, ctypes.c_void_p]
    function.restype = ctypes.c_uint32
    created = ctypes.c_void_p()
    check(name, function(*args, ctypes.byref(created)))
    return ComObject(created.value or 0)


def check(name: str, hresult: int) -> None:
    """Check the HRESULT of a call.

    Raises:
        CallFailed: The HRESULT is an error.
    """
    if hresult & _FAILURE:
        raise CallFailed(name, hresult & _MASK, "")


class OperatorFactory:
    """A DirectML device that can create operators.

    Attributes:
        dml: The IDMLDevice.
    """

    def __init__(self, dml: ComObject) -> None:
        self.dml = dml

    def create_operator(self, address: int) -> int:
        """Create and release an operator.

        Args:
            address: The address of a DML_OPERATOR_DESC.

        Returns:
            The HRESULT as an unsigned number, 0 for success.
        """
        try:
            self.new_operator(address)
        except CallFailed as error:
            return error.hresult
        return 0

    def new_operator(self, address: int) -> ComObject:
        """Create an operator from the address of a DML_OPERATOR_DESC.

        Raises:
            CallFailed: DirectML refuses it.
        """
        return self.dml.create("CreateOperator", _CREATE_OPERATOR, address, _IDML_OPERATOR)

    def feature_level(self) -> int:
        """Return the highest level in `FeatureLevel` that the library supports.

        Raises:
            CallFailed: The query fails.
        """
        levels = (ctypes.c_int32 * len(FeatureLevel))(*FeatureLevel)
        query = (ctypes.c_uint64 * 2)(len(levels), ctypes.addressof(levels))
        level = ctypes.c_int32()
        addresses = ctypes.addressof(query), ctypes.addressof(level)
        arguments = (_FEATURE_LEVELS, 16, addresses[0], 4, addresses[1])  # 16 and 4 are the sizes of query and answer
        self.dml.call("CheckFeatureSupport", _CHECK_FEATURE_SUPPORT, *arguments)
        return level.value

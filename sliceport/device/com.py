"""Calls of COM methods, and a DirectML device that creates operators."""

from __future__ import annotations

import ctypes
import sys
import uuid
from collections.abc import Callable
from typing import Any

from sliceport.device.errors import CallFailed
from sliceport.directml.feature_levels import FeatureLevel

IDML_DEVICE = uuid.UUID("6dbd6437-96fd-423f-a98c-ae5e7c2a573f").bytes_le
_IDML_OPERATOR = uuid.UUID("26caae7a-3081-4633-9581-226fbe57695d").bytes_le
_MASK = 0xFFFFFFFF
_FAILURE = 0x80000000
_RELEASE, _CHECK_FEATURE_SUPPORT, _CREATE_OPERATOR = 2, 7, 8
"""Positions in tables of methods: IUnknown::Release, IDMLDevice::CheckFeatureSupport and IDMLDevice::CreateOperator."""
_FEATURE_LEVELS = 1  # DML_FEATURE_FEATURE_LEVELS


def call_method(this: int, slot: int, *args: int | bytes) -> int:
    """Call the method at position `slot` of a COM object's table of methods.

    Each number is passed as 64 bits, and each bytes object as its address. If the method expects 32 bits, it ignores
    the upper half.

    Returns:
        The lower 32 bits of the result, as an unsigned number.
    """
    table = ctypes.c_void_p.from_address(this).value or 0
    address = ctypes.c_void_p.from_address(table + 8 * slot).value or 0
    types = (ctypes.c_char_p if isinstance(arg, bytes) else ctypes.c_uint64 for arg in args)
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, *types)(address)
    return int(function(this, *args)) & _MASK


class ComObject:
    """An owned reference to a COM object, which is released when this value is deleted.

    Attributes:
        address: The address of the object.
    """

    def __init__(self, address: int) -> None:
        self.address = address

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # `is_finalizing` is bound as a default, because module globals may already be gone at exit.
        if not is_finalizing():  # the methods may be Python functions, which cannot be called at exit
            call_method(self.address, _RELEASE)

    def call(self, name: str, slot: int, *args: int | bytes) -> None:
        """Call a method that returns an HRESULT. `name` is for messages; `slot` and `args` are as in `call_method`.

        Raises:
            CallFailed: The method failed.
        """
        raise_on_failure(name, call_method(self.address, slot, *args))

    def create(self, name: str, slot: int, *args: int | bytes) -> ComObject:
        """Call a method that takes an out pointer after `args`, and return the object stored at this pointer.

        Raises:
            CallFailed: The method failed.
        """
        created = ctypes.c_void_p()
        self.call(name, slot, *args, ctypes.addressof(created))
        return ComObject(created.value or 0)  # never null after a success


def create(function: Any, name: str, *args: int | bytes) -> ComObject:
    """Call a library function that takes an out pointer after `args`, and return the object stored at this pointer.

    Raises:
        CallFailed: The function failed.
    """
    types = (ctypes.c_char_p if isinstance(arg, bytes) else ctypes.c_uint64 for arg in args)
    function.argtypes = [*types, ctypes.c_void_p]
    function.restype = ctypes.c_uint32
    created = ctypes.c_void_p()
    raise_on_failure(name, function(*args, ctypes.byref(created)))
    return ComObject(created.value or 0)  # never null after a success


def raise_on_failure(name: str, hresult: int) -> None:
    """Raise CallFailed for the function `name` if its result `hresult` is an error."""
    if hresult & _FAILURE:
        raise CallFailed(name, hresult & _MASK, "")


class OperatorFactory:
    """A DirectML device that can create operators; `dml` is its IDMLDevice."""

    def __init__(self, dml: ComObject) -> None:
        self.dml = dml

    def try_operator(self, address: int) -> int:
        """Create and release the operator of the DML_OPERATOR_DESC at `address`. Return the HRESULT, 0 for success."""
        try:
            self.new_operator(address)  # the result is not kept, so the operator is released
        except CallFailed as error:
            return error.hresult
        return 0

    def new_operator(self, address: int) -> ComObject:
        """Create the operator of the DML_OPERATOR_DESC at `address`, and return it.

        Raises:
            CallFailed: DirectML refuses the operator.
        """
        return self.dml.create("CreateOperator", _CREATE_OPERATOR, address, _IDML_OPERATOR)

    def feature_level(self) -> int:
        """Return the highest level of `FeatureLevel` that the device supports, as its number.

        Raises:
            CallFailed: The query fails.
        """
        levels = (ctypes.c_int32 * len(FeatureLevel))(*FeatureLevel)
        query = (ctypes.c_uint64 * 2)(len(levels), ctypes.addressof(levels))  # DML_FEATURE_QUERY_FEATURE_LEVELS
        level = ctypes.c_int32()
        sized_query, sized_answer = (16, ctypes.addressof(query)), (4, ctypes.addressof(level))  # sizes in bytes
        self.dml.call("CheckFeatureSupport", _CHECK_FEATURE_SUPPORT, _FEATURE_LEVELS, *sized_query, *sized_answer)
        return level.value

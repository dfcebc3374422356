"""Functions of Windows that control processes and that Python lacks. The module is empty on other systems."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _KILL_ON_CLOSE = 0x2000  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
    _EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
    _SYNCHRONIZE = 0x100000
    _SET_QUOTA_AND_TERMINATE = 0x101  # PROCESS_SET_QUOTA | PROCESS_TERMINATE
    _INVALID_PARAMETER = 87  # ERROR_INVALID_PARAMETER, the error of OpenProcess if no process has the id

    class _Limits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION of winnt.h."""

        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    def _load() -> ctypes.WinDLL:
        """Load kernel32 and declare the types of its functions, because ctypes would truncate 64-bit handles to int."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = wintypes.HANDLE
        kernel.CreateJobObjectW.argtypes = (ctypes.c_void_p, wintypes.LPCWSTR)
        kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
        kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
        kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        kernel.OpenProcess.restype = wintypes.HANDLE
        kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
        kernel.WaitForSingleObject.restype = wintypes.DWORD
        kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
        return kernel

    class Job:
        """A job object, which ends its processes and their descendants when this process ends or calls `kill`.

        `pid` is the id of a process without children. The job stays empty if the process `pid` cannot be opened.

        Raises:
            OSError: The system makes no job object.
        """

        def __init__(self, pid: int) -> None:
            self._kernel = _load()
            self._handle = self._kernel.CreateJobObjectW(None, None)
            if not self._handle:
                raise ctypes.WinError(ctypes.get_last_error())
            limits = _Limits(LimitFlags=_KILL_ON_CLOSE)
            self._kernel.SetInformationJobObject(
                self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            )
            process = self._kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
            if process:
                self._kernel.AssignProcessToJobObject(self._handle, process)
                self._kernel.CloseHandle(process)

        def kill(self) -> None:
            """End the processes."""
            if self._handle:
                self._kernel.TerminateJobObject(self._handle, 1)

        def close(self) -> None:
            """End the processes, and release the job."""
            if self._handle:
                self._kernel.CloseHandle(self._handle)  # ends the processes, by _KILL_ON_CLOSE
                self._handle = None

    def has_ended(process: int) -> bool:
        """Return whether the process with this id has ended or does not exist."""
        kernel = _load()
        handle = kernel.OpenProcess(_SYNCHRONIZE, False, process)
        if not handle:
            return ctypes.get_last_error() == _INVALID_PARAMETER
        try:
            return bool(kernel.WaitForSingleObject(handle, 0) == 0)
        finally:
            kernel.CloseHandle(handle)

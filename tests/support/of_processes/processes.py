"""Processes and their memory, as Linux shows them in /proc; on Windows their times and ends alone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from sliceport.device import Device

SMALL_HEAPS = {"VKD3D_CONFIG": "virtual_heaps"}
"""Without it, vkd3d gives every session of onnxruntime two descriptor heaps of 256 MB that lavapipe fills: 0.25 s, not
0.006. Single nodes run with it; some whole models end the host program, so it is not the product's default."""


def host_of(opened: Device) -> int:
    """Return the process that DirectML runs in, which has been started."""
    assert opened._process is not None
    return opened._process.pid


def children(pid: int) -> list[int]:
    """Return the processes under a process, itself included."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread or a process that ends meanwhile
            for child in task.read_text().split():
                found += children(int(child))
    return found


def resident(pid: int) -> int:
    """Return bytes that the processes under a process hold."""
    return sum(int(Path(f"/proc/{child}/statm").read_text().split()[1]) * 4096 for child in children(pid))


def ticks(pid: int) -> int:
    """Return the time that a process has computed, in hundredths of a second."""
    if sys.platform == "win32":
        import ctypes

        kernel, times = ctypes.WinDLL("kernel32"), (ctypes.c_uint64 * 4)()
        kernel.OpenProcess.restype = ctypes.c_void_p
        opened = ctypes.c_void_p(kernel.OpenProcess(0x1000, False, pid))
        kernel.GetProcessTimes(opened, times, ctypes.byref(times, 8), ctypes.byref(times, 16), ctypes.byref(times, 24))
        kernel.CloseHandle(opened)
        return int(times[3]) // 100_000
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let this process open only this many descriptors more. Linux gives a new one the lowest free number."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = (number for number in range(soft) if not os.path.lexists(f"/proc/self/fd/{number}"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, count, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def assert_gone(pids: Iterable[int]) -> None:
    """Wait for the end of these processes: at once, but on a busy machine that may take a while."""
    alive = list(pids)
    for _ in range(1200):
        alive = [pid for pid in alive if _is_alive(pid)]
        if not alive:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes {alive} are still there")


def _is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie, which has no command line."""
    if sys.platform == "win32":
        from sliceport.sandbox.windows import has_ended

        return not has_ended(pid)
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False

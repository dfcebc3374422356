"""The worker process of `sliceport.guarded`: it answers one call after another within the limits of each."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

if sys.platform != "win32":
    import fcntl

TELLS_OF_BROKEN_PIPES = sys.platform != "win32" and hasattr(fcntl, "F_SETSIG")
"""Whether the system can kill a process when a pipe breaks that it holds."""
NO_PIPE = -1
"""Instead of a pipe of the parent, where the system cannot tell of its end."""
GRACE = 2.0
"""Seconds in which what is to end may do so by itself."""
_HEADER = struct.Struct("<Q")
_MAX_LIMIT = 2**63 - 1
_MAX_IDLE_MEMORY = 2**30
"""Bytes that an idle worker may hold; one that holds more is replaced."""


@dataclass
class CallStatus:
    """What the system did to a call, though the function may have made do with that and said nothing.

    Attributes:
        hit_memory_limit: Something had no more memory where only the limit of the call kept it from more.
        lost_worker: A worker that the call itself needed could not be started, or somebody else ended it.
    """

    hit_memory_limit: bool = False
    lost_worker: bool = False


@dataclass
class _Process:
    """This process.

    Attributes:
        is_worker: Whether it is a worker. The workers of workers end with them, as one group of processes.
        memory: What the call under way may allocate; None for any.
        status: That of the call under way, or of the last one.
    """

    is_worker: bool = False
    memory: int | None = None
    status: CallStatus = field(default_factory=CallStatus)


this_process = _Process()


def serve(parent: int = NO_PIPE, module: str = "") -> None:
    """Answer calls until the other side closes the pipe: what a worker process does.

    Args:
        parent: The end of a pipe whose other end the parent holds, or `NO_PIPE`.
        module: What it imports before the first call.
    """
    this_process.is_worker = True
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that waits
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with answers
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    if module:
        with contextlib.suppress(Exception):  # the call that needs it says so
            importlib.import_module(module)
    while (request := read_message(requests)) is not None:
        answer = _answer(request)
        try:
            write_message(answers, answer)
        except OSError:
            return


def _answer(request: bytes) -> bytes:
    begun = time.process_time()
    module, name, args, timeout, memory = pickle.loads(request)  # noqa: S301 - from the process that started this one
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        with _limits(timeout, memory):
            return _dump((False, function(*args)), begun)  # type: ignore[operator]
    except Exception as error:
        try:
            answer = _dump((True, error.with_traceback(None)), begun)
            pickle.loads(answer)  # noqa: S301 - own; there are errors that cannot be made again of what they hold
            return answer
        except Exception:
            return _dump((True, RuntimeError(f"{type(error).__name__}: {error}")), begun)


def _dump(answer: tuple[bool, Any], begun: float) -> bytes:
    """An answer, whether this worker is to be replaced, and the processor time that the call has taken."""
    return pickle.dumps((answer, (_allocated() or 0) > _MAX_IDLE_MEMORY, time.process_time() - begun))


@contextlib.contextmanager
def _limits(timeout: float | None, memory: int | None) -> Iterator[None]:
    """Bound memory, and time where nobody waits any more, as far as the system can."""
    this_process.memory, this_process.status = memory, CallStatus()
    if sys.platform == "win32":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    signal.setitimer(signal.ITIMER_REAL, 0 if timeout is None else timeout + GRACE)
    allocated = _allocated()
    if allocated is not None and memory is not None:
        bounds = [allocated + memory, _MAX_LIMIT, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextlib.contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """End this process when it has used so much processor time from now on; not on Windows, nor beyond its own limits.

    Where a machine is loaded, that takes longer than the same seconds; a process that waits for something uses none.
    In a worker alone: the caller gets `WorkerUsedTime`.
    """
    if sys.platform == "win32":
        yield
        return
    import resource

    before, cores = resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_CORE)
    used = resource.getrusage(resource.RUSAGE_SELF)
    wanted = math.ceil(used.ru_utime + used.ru_stime + seconds)
    bounds = [wanted, *(bound for bound in before if bound != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_CORE, (0, cores[1]))  # the signal would leave the memory in a file
    resource.setrlimit(resource.RLIMIT_CPU, (min(bounds), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)
        resource.setrlimit(resource.RLIMIT_CORE, cores)


def _allocated() -> int | None:
    """Bytes that this process has allocated, files that it maps left out; None where the system does not say."""
    if sys.platform == "win32":
        return None
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def _end_with(parent: int) -> None:
    """Let this process, and those of the group that it may lead, be killed when the pipe of its parent breaks."""
    if sys.platform != "win32" and parent != NO_PIPE:
        leads = os.getpgrp() == os.getpid()
        fcntl.fcntl(parent, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent, fcntl.F_SETOWN, -os.getpid() if leads else os.getpid())
        fcntl.fcntl(parent, fcntl.F_SETFL, os.O_ASYNC)


def write_message(stream: IO[bytes], data: bytes) -> None:
    """Send a message."""
    stream.write(_HEADER.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    (size,) = _HEADER.unpack(header)
    data = stream.read(size)
    return data if len(data) == size else None

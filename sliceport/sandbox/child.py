"""The child's side of the sandbox: answer one call after another, each within its limits, and end with the parent."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from sliceport.errors import is_out_of_memory
from sliceport.sandbox.parent_pipe import NO_PIPE, die_with_parent
from sliceport.sandbox.progress import listen_to_progress
from sliceport.sandbox.signals import STOPPING

ANSWER, PROGRESS, ANNOUNCEMENT = b"A", b"P", b"N"
"""Kinds of messages from a child."""
_HEADER = struct.Struct("<cQ")
"""The kind of a message, and the number of its bytes."""
_MAX_LIMIT = 2**63 - 1
"""The largest limit that `resource.setrlimit` accepts."""
_MAX_IDLE_MEMORY = 2**30
"""Bytes that an idle child may hold; a larger one is replaced."""


@dataclass
class _ThisProcess:
    """State of this process.

    Attributes:
        is_child: Whether this process is a child of the sandbox. Processes that it starts are killed together with it.
        is_isolated: Whether the call under way must use a child of its own for code that may crash.
        memory: Bytes that the call under way may allocate beyond what this process had; None for no limit.
        deadline: The time by `time.monotonic` at which the parent ends the call under way; None for no limit.
    """

    is_child: bool = False
    is_isolated: bool = False
    memory: int | None = None
    deadline: float | None = None


this_process = _ThisProcess()


def is_expendable() -> bool:
    """Return whether code that may crash can run in this process: it is a child, and its call is not isolated.

    After a crash, `call_with_retry` repeats the call, isolated.
    """
    return this_process.is_child and not this_process.is_isolated


def seconds_left() -> float | None:
    """Return the time until the parent ends the call under way, in seconds; None for no limit."""
    return None if this_process.deadline is None else max(this_process.deadline - time.monotonic(), 0.0)


def serve(requests: IO[bytes], answers: IO[bytes], parent: int = NO_PIPE) -> None:
    """Answer calls until the parent closes the pipe `requests`. Send answers and progress messages to `answers`.

    `parent` is the child's end that `open_parent_pipe` yielded.
    """
    this_process.is_child = True
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked child inherits the parent's handler
    if sys.platform != "win32":
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # `stty tostop` would stop a child that logs to the terminal
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # `ForkedProcess` blocks them during the fork

    def send(text: str, kind: bytes) -> None:
        write_message(answers, text.encode(errors="replace"), kind)

    listening = listen_to_progress(lambda text: send(text, PROGRESS), lambda text: send(text, ANNOUNCEMENT))
    # An OSError here means that the parent has died, because `_answer` catches the errors of calls.
    with contextlib.suppress(OSError), listening:
        while (request := read_message(requests)) is not None:
            gc.disable()  # a call leaves little garbage, and a search for it would take a tenth of the call's time
            # The bytes are released before the call, because they may hold a large model.
            call, request = pickle.loads(request[1]), None  # noqa: S301 - from the parent
            write_message(answers, _answer(*call))
            gc.enable()


def main() -> None:
    """Serve calls in a new interpreter, through stdin and stdout. The argument `parent` of `serve` is in `argv[1]`."""
    # Calls use duplicates of stdin and stdout. The originals are redirected, so output of libraries goes to stderr (2).
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    redirect_standard_streams(2)
    serve(requests, answers, int(sys.argv[1]))


def redirect_standard_streams(log: int) -> None:
    """Redirect stdout and stderr to `log`, and stdin to an empty file, so that no library uses the pipes of calls."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _answer(
    module: str, name: str, args: tuple[Any, ...], memory: int | None, is_isolated: bool, timeout: float | None
) -> bytes:
    """Call a function of a module by its qualified name, and return the pickled result or error."""
    this_process.memory, this_process.is_isolated = memory, is_isolated
    this_process.deadline = None if timeout is None else time.monotonic() + timeout
    try:
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        with _limit_memory(memory):
            return _pickle_answer(False, function(*args))
    except Exception as error:
        if is_out_of_memory(error):  # checked here, because pickling loses the causes of an error
            return _pickle_answer(True, MemoryError(str(error)))
        try:
            answer = _pickle_answer(True, error.with_traceback(None))
            pickle.loads(answer)  # noqa: S301 - own; raises if the error cannot be unpickled
            return answer
        except Exception:  # the error cannot be pickled or unpickled
            return _pickle_answer(True, RuntimeError(f"{type(error).__name__}: {error}"))


def _pickle_answer(is_error: bool, value: Any) -> bytes:
    """Pickle an answer. Its last item is whether this process holds so much memory that it must be replaced."""
    return pickle.dumps((is_error, value, (_count_allocated() or 0) > _MAX_IDLE_MEMORY))


@contextlib.contextmanager
def _limit_memory(memory: int | None) -> Iterator[None]:
    """Limit the bytes that this process may allocate in addition to what it has. Only Linux enforces the limit."""
    allocated = _count_allocated()
    if sys.platform == "win32" or allocated is None or memory is None:
        yield
        return
    import resource

    # On Linux, RLIMIT_DATA also counts private writable mappings, such as large blocks of `malloc`.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [allocated + memory, _MAX_LIMIT, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _count_allocated() -> int | None:
    """Return the bytes that this process has allocated, without mapped files; None on systems without /proc."""
    if sys.platform == "win32":
        return None
    try:
        with open("/proc/self/statm", "rb") as file:
            # The sixth number counts the pages of data and stack.
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def write_message(stream: IO[bytes], data: bytes, kind: bytes = ANSWER) -> None:
    """Write the kind, the size and the data of a message. The kind of a request has no meaning."""
    stream.write(_HEADER.pack(kind, len(data)))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Return the kind and the data of the next message; None if the message is not complete, as after a crash."""
    header = read_exactly(stream, _HEADER.size)
    if header is None:
        return None
    kind, size = _HEADER.unpack(header)
    data = read_exactly(stream, size)
    return None if data is None else (kind, data)


def read_exactly(stream: IO[bytes], size: int) -> bytes | None:
    """Read `size` bytes from a stream, buffered or not. Return None if the stream ends earlier."""
    parts = []
    while size > 0:
        part = stream.read(min(size, 2**20))  # `read` allocates this many bytes, even if fewer arrive
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

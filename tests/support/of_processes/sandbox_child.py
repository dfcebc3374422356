"""Children of the sandbox that are forked from the tests' server; see `fork_server.py`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from fork_server import Child
from forked import server

from sliceport.sandbox import child_process
from sliceport.sandbox.child import redirect_standard_streams, serve
from sliceport.sandbox.parent_pipe import NO_PIPE


class SandboxChild(Child):
    """A child with the pipes that `ChildProcess` reads and writes."""

    stdin: IO[bytes]
    stdout: IO[bytes]


start_interpreter: Callable[[int, int], Any] = child_process._start
_OWNER = os.getpid()
_M_PERTURB = -6
"""The option of glibc that the server sets; see `forked.POISON`."""


def fork(log: int, parent_pipe: int) -> Any:
    """Fork a child that serves calls. A process that was forked from that of the tests starts an interpreter."""
    if os.getpid() != _OWNER:
        return start_interpreter(log, parent_pipe)
    requests, to_child = os.pipe()
    from_child, answers = os.pipe()
    pipe = [] if parent_pipe == NO_PIPE else [parent_pipe]
    try:
        child = server().fork(SandboxChild, _serve, descriptors=[requests, answers, log, *pipe])
    finally:
        os.close(requests)
        os.close(answers)
    with suppress(OSError):  # the child has done so already
        os.setpgid(child.pid, child.pid)  # otherwise `ChildProcess.kill`, which kills a group, might find none yet
    child.stdin, child.stdout = os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb")
    return child


def _serve(descriptors: list[int]) -> int:
    requests, answers, log, *pipe = descriptors
    os.setpgid(0, 0)
    ctypes.CDLL(None).mallopt(_M_PERTURB, 0)  # to fill gigabytes that a model asks for would take seconds
    redirect_standard_streams(log)
    serve(os.fdopen(requests, "rb"), os.fdopen(answers, "wb"), *pipe)
    return 0

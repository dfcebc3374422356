"""A pipe between a parent and its child. It breaks when the parent ends, and the system then kills the child."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from typing import IO

if sys.platform != "win32":
    import fcntl

NO_PIPE = -1
"""Placeholder for the parent's pipe on systems that send no signal when a pipe breaks."""


@contextlib.contextmanager
def open_parent_pipe() -> Iterator[tuple[int, IO[bytes] | None]]:
    """Open a pipe that breaks when this process ends. Yield the child's end and the parent's end.

    The child's end is closed when the block ends. The caller keeps the parent's end open for as long as the child runs.
    If the block raises an error, both ends are closed. On systems that send no signal when a pipe breaks, yield
    `NO_PIPE` and None.
    """
    if sys.platform == "win32" or not hasattr(fcntl, "F_SETSIG"):
        yield NO_PIPE, None
        return
    child_end, parent_descriptor = os.pipe()
    parent_end = os.fdopen(parent_descriptor, "wb")
    try:
        yield child_end, parent_end
    except BaseException:
        parent_end.close()
        raise
    finally:
        os.close(child_end)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process, or the group that it leads, when the other end of the pipe `parent` closes."""
    if sys.platform != "win32" and parent != NO_PIPE:
        # fcntl(2): with O_ASYNC, the owner of this end gets the signal of F_SETSIG once no process holds the other end.
        is_group_leader = os.getpgrp() == os.getpid()
        fcntl.fcntl(parent, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent, fcntl.F_SETOWN, -os.getpid() if is_group_leader else os.getpid())  # minus: a group
        fcntl.fcntl(parent, fcntl.F_SETFL, os.O_ASYNC)
        poll = select.poll()
        poll.register(parent, 0)  # no events: `poll` only reports that the pipe is broken
        if poll.poll(0):  # the parent died before the signal was set up
            os._exit(1)

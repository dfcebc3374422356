"""Calls of functions in child processes that may crash, hang or run out of memory.

A child is started when it is first needed, serves one call after another, and ends with this process. On Linux and
Windows, it also ends if this process is killed. A child that dies is replaced at the next call.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from sliceport.sandbox.child import this_process
from sliceport.sandbox.child_process import ChildCrashed, ChildProcess, ChildTimedOut

logger = logging.getLogger(__name__)


class _Pool:
    """The children of this process that serve one call after another. A forked process starts with an empty pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[ChildProcess] = []
        self._busy: dict[ChildProcess, threading.Event | None] = {}
        """The children that work on a call, with the `stop_event` of the call."""
        self._owner = os.getpid()

    @contextlib.contextmanager
    def borrow(self, stop_event: threading.Event | None) -> Iterator[ChildProcess]:
        """Yield an idle child process, or a new one. Keep it for the next call unless it failed or must be replaced."""
        if self._owner != os.getpid():  # this process was forked, and the children are its parent's
            self.__init__()  # type: ignore[misc]
        with self._lock:
            while self._idle and not self._idle[-1].is_alive():  # another process has ended it
                self._idle.pop().close()
            child = self._idle.pop() if self._idle else None
        child = child or ChildProcess()
        with self._lock:
            self._busy[child] = stop_event
            if stop_event is not None and stop_event.is_set():  # `end_calls` ran before the child was in `_busy`
                child.kill()
        is_reusable = False
        try:
            yield child
            is_reusable = not child.must_be_replaced
        finally:
            with self._lock:
                del self._busy[child]
                if is_reusable:
                    self._idle.append(child)
            if not is_reusable:
                child.close()

    def end_calls(self, stop_event: threading.Event) -> None:
        """Set an event, and kill the children of its calls. Later calls with the event also raise `ChildDied`."""
        with self._lock:
            stop_event.set()
            for child, event in self._busy.items():
                if event is stop_event:
                    child.kill()

    def end_idle(self) -> None:
        """End the child processes that wait for a call. The next call starts a new one."""
        if self._owner != os.getpid():  # this process was forked, and the children are its parent's
            return
        with self._lock:
            for child in self._idle:
                child.close()
            self._idle.clear()


_pool = _Pool()
end_calls = _pool.end_calls
end_idle = atexit.register(_pool.end_idle)  # `register` returns the function


def call(
    function: Callable[..., Any],
    *args: Any,
    timeout: float | None = None,
    memory: int | None = None,
    is_isolated: bool = False,
    forks: bool = False,
    log: int | None = None,
    stop_event: threading.Event | None = None,
) -> Any:
    """Call a function in a child process and return its result.

    Args:
        function: A function of a module that the child can import.
        args: Its arguments; they and the result are pickled.
        timeout: Seconds that the call may take, the start of the child included; None for no limit.
        memory: Bytes that the child, and each process that it starts, may allocate beyond what it has; enforced on
            Linux alone. If this process is a child, the limit of the call that it is answering applies, too.
        is_isolated: Whether the function has to run code that may crash in a further child. `child.is_expendable` tells
            it that.
        forks: Whether a new child serves this call alone, forked if that is safe. By default, children are reused.
        log: The descriptor for the output of a new child that serves this call alone. By default the output goes to a
            file for `ChildDied.stderr`.
        stop_event: `end_calls` ends the calls that have this event. A child that serves one call alone ignores it.

    Raises:
        ChildDied: The child ended, or was ended; see its subclasses in `child_process`.
        Exception: The error of the function, such as MemoryError; RuntimeError if the error cannot be pickled.
    """
    bounds = [bound for bound in (memory, this_process.memory) if bound is not None]
    limit = min(bounds) if bounds else None
    request = pickle.dumps((function.__module__, function.__qualname__, args, limit, is_isolated, timeout))
    is_alone = forks or log is not None
    forks = forks and _can_fork()
    lease = contextlib.closing(ChildProcess(forks=forks, log=log)) if is_alone else _pool.borrow(stop_event)
    with lease as child:
        is_error, value = child.call(request, timeout)
    if is_error:
        raise value
    return value


def _can_fork() -> bool:
    """Return whether a fork is safe, as far as Python can tell: threads of C libraries are not counted.

    Libraries of macOS fail after a fork. A lock that another thread holds would stay locked in the child.
    """
    return sys.platform not in ("win32", "darwin") and threading.active_count() == 1


def call_with_retry(function: Callable[..., Any], *args: Any, timeout: float | None = None, **options: Any) -> Any:
    """Call a function in a child process. If the child crashes, repeat the call once with `is_isolated`.

    The other arguments and the errors are those of `call`. Both calls together may take `timeout` seconds.
    """
    start = time.monotonic()
    try:
        return call(function, *args, timeout=timeout, **options)
    except ChildCrashed as error:
        logger.debug("the process of a call %s; the call is repeated with is_isolated", error)
    remaining = None if timeout is None else max(timeout - (time.monotonic() - start), 0.0)
    try:
        return call(function, *args, timeout=remaining, is_isolated=True, **options)
    except ChildTimedOut as error:  # its message has the seconds that remained for the second call
        raise ChildTimedOut(f"took longer than {timeout:g} s", error.stderr) from None

"""Limits of time and memory for the work on one model, where this process does nothing else, as on the command line.

What a format knows to take too long it refuses by itself; this is for what nothing foresaw.
"""

from __future__ import annotations

import _thread
import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from sliceport.errors import ModelError

_TURN = 0.1
"""Seconds between two looks at what has been used."""
_TRIES = 20
"""Turns after which work that goes on is interrupted again: what was raised first may have been lost in a callback."""


class LimitExceeded(KeyboardInterrupt):
    """Raised in the main thread when its work exceeds a limit, wherever it is; what Ctrl-C undoes, this does, too."""


class _Watch:
    """Interrupts the main thread, which makes it, when a limit is exceeded.

    Args:
        seconds: Processor time of this process, and what `count` is told.
        memory: Bytes that this process may have in memory, files that it maps left out; only on Linux.

    Attributes:
        reason: What was exceeded; empty before.
    """

    def __init__(self, seconds: float, memory: float) -> None:
        self.reason = ""
        self._seconds, self._memory = seconds, memory
        self._begun = _time_used()
        self._lifted_since: float | None = None
        self._turns = 0
        """Since the main thread was interrupted first."""
        self._handler = signal.signal(signal.SIGINT, self._handle)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def seconds_left(self) -> float:
        """Seconds until the limit."""
        return math.inf if self._lifted_since is not None else self._begun + self._seconds - _time_used()

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Nothing counts while it lasts."""
        if self._lifted_since is not None:
            yield
            return
        self._lifted_since = _time_used()
        try:
            yield
        finally:
            self._begun += _time_used() - self._lifted_since
            self._lifted_since = None

    def finish(self) -> None:
        """From here on nothing is exceeded."""
        self._is_over.set()

    def is_exceeded(self) -> bool:
        """Whether a limit is exceeded."""
        return bool(self.reason) and not self._is_over.is_set()

    def close(self) -> None:
        """End it: nothing is raised from here on."""
        self.finish()
        self._thread.join()
        signal.signal(signal.SIGINT, self._handler)  # what is still to be handled, it handles before

    def _run(self) -> None:
        while not self._is_over.wait(_TURN):
            if self._lifted_since is not None:
                continue
            self.reason = self.reason or self._exceeded()
            if self.reason:
                if self._turns % _TRIES == 0:
                    _thread.interrupt_main(signal.SIGINT)
                self._turns += 1

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C as before, and what `_run` interrupts."""
        if self.reason:
            if is_importing(frame):
                self._turns = 0
            elif self.is_exceeded():
                raise LimitExceeded
        elif callable(self._handler):
            self._handler(number, frame)

    def _exceeded(self) -> str:
        if self.seconds_left() < 0:
            return f"it takes more than {self._seconds:g} s of processor time; --timeout 0 sets no limit."
        if _memory_used() > self._memory:
            return f"it takes more than {self._memory / 2**20:.0f} MiB of memory; --memory 0 sets no limit."
        return ""


def is_importing(frame: FrameType | None) -> bool:
    """Whether this frame, which a signal has interrupted, is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


_watch: _Watch | None = None
_elsewhere = 0.0
"""Seconds that `count` was told."""


@contextlib.contextmanager
def limited(seconds: float | None, memory: int | None) -> Iterator[None]:
    """Bound the work in it, where this is the main thread: no other can be interrupted.

    Args:
        seconds: Processor time that it may take, that of calls by `sliceport.guarded` included; None for any.
        memory: Bytes that this process may have in memory, files that it maps left out; None for any. It is looked at
            on Linux, and ten times a second, so that a single call of a library can take more.

    Raises:
        ModelError: It takes more.
    """
    global _watch  # noqa: PLW0603 - one model at a time
    is_main = threading.current_thread() is threading.main_thread()
    if (seconds is None and memory is None) or not is_main or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    watch = _watch = _Watch(math.inf if seconds is None else seconds, math.inf if memory is None else memory)
    try:
        yield
    except BaseException:
        if watch.is_exceeded():  # whatever a library has made of the interruption
            raise ModelError(watch.reason) from None
        raise
    finally:
        watch.close()
        _watch = None


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """No limit counts while it lasts: for what has limits of its own, such as running a model."""
    if _watch is None:
        yield
        return
    with _watch.lifted():
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C, SIGTERM and what exceeds a limit wait for the end of it: for short steps that belong together.

    Only the main thread is interrupted by these.
    """
    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or None in map(signal.getsignal, numbers):
        yield
        return
    late: dict[int, None] = {}
    before = {number: signal.signal(number, lambda number, _: late.setdefault(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in late:
            handler = before[number]
            if callable(handler):
                handler(number, None)
            elif handler == signal.SIG_DFL:
                signal.raise_signal(number)


def finish() -> None:
    """Say that the work is done, as when a file has its name: from here on no limit counts."""
    if _watch is not None:
        _watch.finish()


def seconds_left() -> float:
    """Seconds of processor time that the work may still take; infinite without a limit, and where limits are lifted."""
    return math.inf if _watch is None else _watch.seconds_left()


def count(seconds: float) -> None:
    """Count processor time that another process has used for this one."""
    global _elsewhere  # noqa: PLW0603 - there is one process
    _elsewhere += seconds


def _time_used() -> float:
    """Processor time of this process and of the calls of others, in seconds."""
    return time.process_time() + _elsewhere


def _memory_used() -> int:
    """Bytes of this process that are in memory, files that it maps left out; 0 where the system does not say."""
    if sys.platform == "win32":
        return 0
    try:
        with open("/proc/self/statm", "rb") as file:
            resident, shared = map(int, file.read().split()[1:3])
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")

"""Signals that stop a command. They raise an exception, but are ignored during steps that must not be interrupted."""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, TypeVar

STOPPING = (signal.SIGINT, signal.SIGTERM)
"""Signals that stop a command: Ctrl-C of a user, or the shutdown of a system."""
T = TypeVar("T")
_WAIT_ON_WINDOWS = 0.2
"""Seconds after which Ctrl-C is noticed on Windows, where it does not interrupt a wait."""


def get_interruptibly(items: queue.Queue[T]) -> T:
    """Wait for the next item of a queue and return it. Ctrl-C interrupts the wait, on Windows too."""
    while True:
        with contextlib.suppress(queue.Empty):
            return items.get(timeout=_WAIT_ON_WINDOWS if sys.platform == "win32" else None)


class Stopped(BaseException):
    """A signal that ends this process.

    Attributes:
        number: The signal: SIGINT or SIGTERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_is_shielded = False


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` for the first SIGINT or SIGTERM outside `shielded` blocks.

    Ignore later signals until the process ends, so that they do not interrupt the clean-up. Leave alone a signal that
    the process already ignores or handles. Do nothing outside the main thread, where Python cannot set handlers.
    """
    stopped: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if not stopped and not _is_shielded:
            stopped.append(number)
            raise Stopped(number)

    unhandled: list[int] = []
    if threading.current_thread() is threading.main_thread():
        default_handlers = (signal.SIG_DFL, signal.default_int_handler)
        unhandled = [number for number in STOPPING if signal.getsignal(number) in default_handlers]
    old_handlers: dict[int, Any] = {number: signal.signal(number, stop) for number in unhandled}
    try:
        yield
    finally:
        if not stopped:
            for number, handler in old_handlers.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Make the `stoppable` block around this block ignore signals, which are lost. Do not nest `shielded` blocks.

    Do nothing outside the main thread, because signals interrupt the main thread alone.
    """
    global _is_shielded  # noqa: PLW0603 - a signal concerns the whole process
    _is_shielded = threading.current_thread() is threading.main_thread()
    try:
        yield
    finally:
        _is_shielded = False

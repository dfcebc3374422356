"""Ctrl-C: whatever libraries make of it while they are imported or call back, the command ends as interrupted."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from sliceport.limits import is_importing

_TURN = 0.02
"""Seconds after which an import that Ctrl-C waits for is looked at again."""
_PATIENCE = 2.0
"""Seconds after which Ctrl-C no longer waits for an import."""
_PAUSE = 1.0
"""Seconds in which Ctrl-C is not raised again: what was begun is cleaned up."""

_owner = 0
"""The process that `remember` was called in."""
_pressed_at: float | None = None
_raised_at: float | None = None


def remember() -> None:
    """From here on Ctrl-C is remembered, and waits for imports, where Python's own handler would raise it."""
    global _owner  # noqa: PLW0603 - there is one process
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _owner = os.getpid()
        signal.signal(signal.SIGINT, _handle)


def end() -> None:
    """From here on Ctrl-C ends the process without a word."""
    if signal.getsignal(signal.SIGINT) is _handle:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Ends with KeyboardInterrupt if Ctrl-C was pressed in it, even if that became another error, or was lost."""
    try:
        yield
    except Exception:
        _raise_if_pressed()
        raise
    _raise_if_pressed()


def _raise_if_pressed() -> None:
    global _raised_at  # noqa: PLW0603 - there is one process
    if _pressed_at is not None:
        _raised_at = time.monotonic()
        raise KeyboardInterrupt from None


def _handle(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not within an import: that can leave locks held, or be taken for a failure."""
    global _pressed_at, _raised_at  # noqa: PLW0603 - there is one process
    if os.getpid() != _owner:  # such as the one in which openvino_telemetry sends: it ends without a word
        os._exit(128 + number)
    now = time.monotonic()
    if _raised_at is not None and now - _raised_at < _PAUSE:
        return
    if _pressed_at is None:
        _pressed_at = now
    if is_importing(frame) and now - _pressed_at < _PATIENCE:
        later = threading.Timer(_TURN, _press_again)
        later.daemon = True
        later.start()
        return
    _raised_at = now
    signal.default_int_handler(number, frame)


def _press_again() -> None:
    if _raised_at is None:
        _thread.interrupt_main(signal.SIGINT)

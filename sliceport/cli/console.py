"""The streams of the command line: the result on stdout, everything else on stderr, without the logs of libraries."""

from __future__ import annotations

import errno
import io
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sliceport.errors import OutputError
from sliceport.report.table import display_width, printable
from sliceport.sandbox.progress import listen_to_progress
from sliceport.wording.json_text import to_text

_DELAY = 2.0
"""Seconds after which a terminal shows the current activity."""


class PipeClosed(Exception):
    """The reader of stdout has closed it, as `head` does."""


def width() -> int | None:
    """Return the columns of the terminal; None if stdout is not a terminal."""
    if sys.stdout is None or sys.stdout.closed or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def can_show_color() -> bool:
    """Return whether stdout is a terminal that shows colors, and NO_COLOR is not set (https://no-color.org)."""
    return width() is not None and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit(text: str, *, is_raw: bool = False) -> None:
    """Write lines of the result to stdout. Unless `is_raw` is set, escape characters that are not printable.

    Raises:
        OutputError: stdout is closed or full.
        PipeClosed: The reader of stdout has closed it.
    """
    if sys.stdout is None or sys.stdout.closed:
        raise OutputError("the result cannot be written: stdout is closed.")
    with _lock:  # another thread may be writing the progress line, which this erases
        _clear()
    try:
        sys.stdout.write((text if is_raw else "\n".join(map(printable, text.split("\n")))) + "\n")
        sys.stdout.flush()
    except OSError as error:
        # Discard the rest of the buffer. Otherwise the interpreter tries to write it at exit, and reports an error.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        # Windows reports a closed pipe as EINVAL.
        if isinstance(error, BrokenPipeError) or (error.errno == errno.EINVAL and sys.platform == "win32"):
            raise PipeClosed from None
        raise OutputError(f"the result cannot be written to stdout ({error.strerror or error}).") from None


def emit_json(data: Any) -> None:
    """Write the result as JSON in ASCII; NaN and infinities become null. Errors are those of `emit`."""
    emit(to_text(data), is_raw=True)


def say(message: str) -> None:
    """Write one line to stderr, and escape unprintable characters. Ignore errors of a closed or full stderr."""
    if sys.stderr is None or sys.stderr.closed:
        return
    with _lock, suppress(OSError):
        _clear()
        sys.stderr.write(f"sliceport: {printable(message)}\n")
        sys.stderr.flush()


@contextmanager
def prepared_streams(*, loud: bool) -> Iterator[None]:
    """Prepare stdout and stderr for any text. In the block, print announcements; if `loud`, also logs and warnings."""
    _open_closed_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # The code pages of Windows lack most characters.
            has_code_page = sys.platform == "win32" and "PYTHONIOENCODING" not in os.environ
            stream.reconfigure(encoding="utf-8" if has_code_page else None, errors="backslashreplace")
    root = logging.getLogger()
    old_level = root.level
    # Without any handler, logging would print warnings on stderr. A NullHandler prints nothing.
    handler = logging.StreamHandler(sys.stderr) if loud else logging.NullHandler()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if loud else logging.CRITICAL)
    logging.captureWarnings(True)
    try:
        with listen_to_progress(announcement=say):
            yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(old_level)
        root.removeHandler(handler)


def _open_closed_descriptors() -> None:
    """Open the null device for each closed standard stream. Otherwise the next opened file would get the output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system returns the lowest free descriptor


_lock = threading.Lock()
_columns = 0
"""Width of the progress line on stderr."""
_status = ""
"""The line of `show_status`."""


def can_show_status() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def show_status(text: str) -> None:
    """Show a progress line instead of the current activity. Call this in `showing_progress`, on a terminal only."""
    global _status  # noqa: PLW0603 - there is one terminal
    with _lock:
        _status = text
        _show(f"sliceport: {text}")


def _clear() -> None:
    """Erase the progress line, if one is shown. The caller holds `_lock`."""
    global _columns  # noqa: PLW0603 - there is one terminal
    if _columns:
        sys.stderr.write("\r" + " " * _columns + "\r")
        sys.stderr.flush()
        _columns = 0


def _show(text: str) -> None:
    """Show a progress line, cut off at the edge of the terminal. The caller holds `_lock`."""
    global _columns  # noqa: PLW0603 - there is one terminal
    _clear()
    text = printable(text)
    columns = shutil.get_terminal_size().columns
    with suppress(AttributeError, OSError):  # `shutil` asks stdout, which may not be this terminal
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or columns
    while display_width(text) >= columns:  # a line that wraps could not be erased
        text = text[:-1]
    sys.stderr.write(text)
    sys.stderr.flush()
    _columns = display_width(text)


@contextmanager
def showing_progress() -> Iterator[None]:
    """Show the current activity on a terminal during the block. The line appears 2 seconds after the first activity."""
    global _status  # noqa: PLW0603 - there is one terminal
    if not can_show_status():
        yield
        return
    start = time.monotonic()
    current = ""
    ended = threading.Event()

    def redraw() -> None:
        """Show the progress line after two seconds, and update it every half second until the block ends."""
        wait = _DELAY
        while not ended.wait(wait):
            wait = 0.5
            with _lock:
                _show(f"sliceport: {_status or f'{current} ({time.monotonic() - start:.0f} s)'}")

    def set_activity(activity: str) -> None:
        nonlocal current
        current = activity
        if thread.ident is None:  # start late: the sandbox forks only if there is no other thread
            thread.start()

    thread = threading.Thread(target=redraw, daemon=True)
    try:
        with listen_to_progress(set_activity):
            yield
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()
        with _lock:
            _status = ""
            _clear()

"""The streams of the command line: the result on stdout, all else on stderr, and no noise of libraries."""

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
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from sliceport.errors import OutputError
from sliceport.json_text import to_text
from sliceport.progress import announcing, listening
from sliceport.report.table import display_width, printable

_PATIENCE = 2.0
"""Seconds after which what is being done shows on a terminal."""


class PipeClosed(Exception):
    """Whoever read stdout has read enough."""


def width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def emit(text: str) -> None:
    """Write lines of the result, made printable.

    Raises:
        OutputError: stdout is closed or full.
        PipeClosed: Nobody reads it.
    """
    _write("\n".join(map(printable, text.split("\n"))))


def can_show_colour() -> bool:
    """Whether stdout is a terminal that shows colours, and nobody asks for none (https://no-color.org)."""
    return width() is not None and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit_coloured(text: str) -> None:
    """Write lines of our own with escape sequences for colours.

    Raises:
        OutputError: stdout is closed or full.
        PipeClosed: Nobody reads it.
    """
    _write(text)


def emit_json(data: Any) -> None:
    """Write the result as JSON, ASCII alone; numbers that JSON lacks are null.

    Raises:
        OutputError: stdout is closed or full.
        PipeClosed: Nobody reads it.
    """
    _write(to_text(data))


def _write(text: str) -> None:
    if sys.stdout is None:
        raise OutputError("the result cannot be written: stdout is closed.")
    with _lock:
        _clear()
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        raise PipeClosed from None
    except OSError as error:
        _discard_stdout()
        if error.errno == errno.EINVAL and sys.platform == "win32":  # a closed pipe there
            raise PipeClosed from None
        raise OutputError(f"the result cannot be written to stdout ({error.strerror or error}).") from None


def _discard_stdout() -> None:
    """Let what is left in stdout's buffer go nowhere, or the interpreter complains when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def say(message: str, program: str = "sliceport") -> None:
    """Write one line to stderr, made printable; where there is no stderr, or it is full, nobody can be told."""
    if sys.stderr is None:
        return
    with _lock, suppress(OSError):
        _clear()
        sys.stderr.write(f"{program}: {printable(message)}\n")
        sys.stderr.flush()


@contextmanager
def streams(*, loud: bool) -> Iterator[None]:
    """Prepare the streams for any text, and send logs and warnings nowhere unless `loud`."""
    with ExitStack() as stack:
        _open_closed_descriptors()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                is_legacy = sys.platform == "win32" and "PYTHONIOENCODING" not in os.environ
                stream.reconfigure(encoding="utf-8" if is_legacy else None, errors="backslashreplace")
        stack.enter_context(_log_to(loud=loud))
        stack.enter_context(announcing(say))
        yield


@contextmanager
def _log_to(*, loud: bool) -> Iterator[None]:
    """Logs and warnings go to stderr, or nowhere."""
    root = logging.getLogger()
    level = root.level
    handler = logging.StreamHandler(sys.stderr) if loud else logging.NullHandler()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if loud else logging.CRITICAL)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.removeHandler(handler)


def _open_closed_descriptors() -> None:
    """Open those of the first three that are closed: the next file would become one, and libraries write into it."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free


_lock = threading.Lock()
_shown = 0
"""Columns of the line on stderr that says what is being done."""


def _clear() -> None:
    global _shown  # noqa: PLW0603 - there is one terminal
    if _shown:
        sys.stderr.write("\r" + " " * _shown + "\r")
        sys.stderr.flush()
        _shown = 0


def _show(text: str) -> None:
    global _shown  # noqa: PLW0603 - there is one terminal
    _clear()
    text = printable(text)
    while display_width(text) >= shutil.get_terminal_size().columns:
        text = text[:-1]
    sys.stderr.write(text)
    sys.stderr.flush()
    _shown = display_width(text)


@contextmanager
def showing_progress() -> Iterator[None]:
    """Show on a terminal what takes longer than two seconds."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    begun = time.monotonic()
    current = ["working"]
    ended = threading.Event()

    def watch() -> None:
        wait = _PATIENCE
        while not ended.wait(wait):
            wait = 0.5
            with _lock:
                _show(f"sliceport: {current[0]} ({time.monotonic() - begun:.0f} s)")

    def listen(what: str) -> None:
        current[0] = what
        if thread.ident is None:  # not before, for a process with threads must not fork
            thread.start()

    thread = threading.Thread(target=watch, daemon=True)
    try:
        with listening(listen):
            yield
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()
        with _lock:
            _clear()

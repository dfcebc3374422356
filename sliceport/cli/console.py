"""The streams of the command line: the result on stdout, all else on stderr, and no noise of libraries."""

from __future__ import annotations

import errno
import io
import logging
import os
import shutil
import sys
import textwrap
import threading
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from sliceport.errors import OutputError
from sliceport.progress import listening
from sliceport.report.json_text import to_text

_PATIENCE = 2.0
"""Seconds after which what is being done shows on a terminal."""


class PipeClosed(Exception):
    """Whoever read stdout has read enough."""


def printable(text: str) -> str:
    """Text with everything escaped that a terminal would act on or hide: control, direction, zero-width characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def display_width(text: str) -> int:
    """Columns of a terminal that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def table(rows: Sequence[Sequence[str]], columns: int | None) -> str:
    """Rows of cells under a title row, made printable. What is wider than `columns` goes on below, by whole cells."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * size for size in widths])
    lines = []
    for row in cells:
        for i, group in enumerate(_groups(widths, columns)):
            line = "  ".join(row[c] + " " * (widths[c] - display_width(row[c])) for c in group).rstrip()
            if i == 0 or line:
                lines += _wrapped("  " * min(i, 1) + line, columns)
    return "\n".join(lines)


def _groups(widths: Sequence[int], columns: int | None) -> list[list[int]]:
    """The columns of a table that stand on one line each; lines after the first are indented."""
    groups: list[list[int]] = [[]]
    used = 0
    for column, size in enumerate(widths):
        needed = used + 2 * bool(used) + size
        if columns is not None and groups[-1] and needed > columns:
            groups.append([])
            used, needed = 2, 2 + size
        groups[-1].append(column)
        used = needed
    return groups


def _wrapped(line: str, columns: int | None) -> list[str]:
    """A line whose one cell is wider than the terminal, broken between words."""
    if columns is None or display_width(line) <= columns:
        return [line]
    if not line.strip("- "):
        return [line[:columns]]
    indent = " " * (len(line) - len(line.lstrip()))
    options: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": indent + "  "}
    return textwrap.wrap(line.strip(), max(columns, 20), break_on_hyphens=False, break_long_words=False, **options)


def emit(text: str) -> None:
    """Write lines of the result, made printable.

    Raises:
        OutputError: stdout is closed or full.
        PipeClosed: Nobody reads it.
    """
    _write("\n".join(map(printable, text.split("\n"))))


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
    """Streams that hold whatever comes, and libraries that are silent unless `loud`."""
    with ExitStack() as stack:
        _open_closed_descriptors()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                is_legacy = sys.platform == "win32" and "PYTHONIOENCODING" not in os.environ
                stream.reconfigure(encoding="utf-8" if is_legacy else None, errors="backslashreplace")
        if not loud:
            stack.enter_context(_silenced_descriptor())
        stack.enter_context(_logged(loud=loud))
        stack.enter_context(_progress_shown())
        yield


@contextmanager
def _logged(*, loud: bool) -> Iterator[None]:
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


@contextmanager
def _silenced_descriptor() -> Iterator[None]:
    """File descriptor 2 leads nowhere while it lasts, and `sys.stderr` to where it led."""
    python = sys.stderr
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    own = None
    if _descriptor(python) == 2:
        encoding, errors = getattr(python, "encoding", "utf-8"), "backslashreplace"
        own = sys.stderr = open(kept, "w", encoding=encoding, errors=errors, buffering=1, closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        if own is not None:
            sys.stderr = python
            with suppress(OSError):
                own.close()
        os.dup2(kept, 2)
        os.close(kept)


def _descriptor(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


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
def _progress_shown() -> Iterator[None]:
    """On a terminal, what has been going on for more than two seconds."""
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

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        with listening(listen):
            yield
    finally:
        ended.set()
        thread.join()
        with _lock:
            _clear()

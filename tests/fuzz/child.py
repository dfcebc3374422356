"""Checking cases in another process, which may crash or hang."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import TracebackType

from .modules import Case, Fuzzer, load

TIMEOUT = 120
"""Seconds for one case. A case that takes longer hangs, on any machine and under any load."""
_SPAWN = multiprocessing.get_context("spawn")


class Checker:
    """A context manager that checks cases of one fuzzer, and starts its process again after a case ended it."""

    def __init__(self, fuzzer: Fuzzer, timeout: float = TIMEOUT) -> None:
        self.fuzzer = fuzzer
        self._timeout = timeout
        self._process: SpawnProcess | None = None
        self._pipe: Connection

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def check_many(self, cases: Sequence[Case]) -> list[str | None]:
        """Return the complaint about each case, or None for a case that comes out right."""
        many = getattr(self.fuzzer, "check_many", None)
        return list(many(cases)) if many is not None else [self._ask(case) for case in cases]

    def check(self, case: Case) -> str | None:
        """Return the complaint about one case, if any."""
        return self.check_many([case])[0]

    def _ask(self, case: Case) -> str | None:
        if self._process is None:
            self._pipe, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=_answer, args=(self.fuzzer.NAME, theirs))
            self._process.start()
            theirs.close()
        with contextlib.suppress(BrokenPipeError):
            self._pipe.send(case)
        if not self._pipe.poll(self._timeout):
            self._process.kill()
            self._end()
            return f"hangs: no answer after {self._timeout} seconds"
        try:
            complaint: str | None = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            return f"ends the process with {_name_of(self._end())}"
        return complaint

    def _end(self) -> int | None:
        """End the process and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        self._pipe.close()  # the process then ends by itself, and its device with it
        process.join(10)
        process.kill()
        process.join()
        return process.exitcode


def _name_of(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"


def _complaint(fuzzer: Fuzzer, case: Case) -> str | None:
    """Check a case; an exception is a complaint, too."""
    try:
        return fuzzer.check(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:500]
        return f"raises {type(error).__name__} in {where.name}: {text} ({where.filename}:{where.lineno})"


def _answer(name: str, pipe: Connection) -> None:
    """Check the cases that come through a pipe until it closes; print nothing."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(silent, stream)
    fuzzer = load(name)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(_complaint(fuzzer, pipe.recv()))

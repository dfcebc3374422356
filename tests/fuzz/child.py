"""Checking cases in another process: `python -m tests.fuzz.child NAME`, JSON in, JSON out, a line a case."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from types import TracebackType

from . import TESTS
from .modules import Case, Fuzzer, load

TIMEOUT = 120
"""Seconds for one case: a hang, on any machine and under any load."""


class Checker:
    """Checks cases of one fuzzer; a context manager. Its process is started again when one has ended it."""

    def __init__(self, fuzzer: Fuzzer, timeout: float = TIMEOUT) -> None:
        self.fuzzer = fuzzer
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def check_many(self, cases: Sequence[Case]) -> list[str | None]:
        """What is wrong with each case."""
        many = getattr(self.fuzzer, "check_many", None)
        return list(many(cases)) if many is not None else [self._ask(case) for case in cases]

    def check(self, case: Case) -> str | None:
        """What is wrong with a case."""
        return self.check_many([case])[0]

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.child", self.fuzzer.NAME],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=TESTS.parent,
        )
        self._lines = queue.Queue()
        threading.Thread(target=_read, args=(process, self._lines), daemon=True).start()
        return process

    def _ask(self, case: Case) -> str | None:
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
        try:
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            process.kill()
            self._end()
            return f"hangs: no answer after {self._timeout} seconds"
        if line:
            answer = json.loads(line)
            assert answer is None or isinstance(answer, str)
            return answer
        self._end()
        return f"ends the process with {_named(process.returncode)}"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # it ends by itself, its device with it
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put("")


def _named(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"code {code}"


def checked(fuzzer: Fuzzer, case: Case) -> str | None:
    """What is wrong with a case; an error that it raises is wrong, too."""
    try:
        return fuzzer.check(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())[:500]
        return f"raises {type(error).__name__} in {where.name}: {said} ({where.filename}:{where.lineno})"


def main() -> None:
    """Answer until the end of stdin; nothing else is written to stdout."""
    answers = sys.__stdout__
    assert answers is not None
    with contextlib.redirect_stdout(sys.stderr):
        fuzzer = load(sys.argv[1])
        for line in sys.stdin:
            answers.write(json.dumps(checked(fuzzer, json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()

"""Asking OpenVINO in other processes, because some cases end the process.

The processes are forked from a server that has imported OpenVINO but not used it: see `forked.py`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import openvino_child
from forked import CONTEXT, server_environment

Answer = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """Answers of a process until its end.

    Attributes:
        answers: The answers in order.
        code: The exit code as of subprocess, or "hang" if it was killed after the timeout.
        stderr: The last text on stderr.
    """

    answers: list[Answer]
    code: int | str
    stderr: str


def ask(answer_all: Callable[[Any], Iterable[Answer]], given: Any, timeout: float) -> Said:
    """Return the answers of a function in a process of its own, until it ends or times out."""
    with tempfile.TemporaryDirectory() as folder:
        noise = Path(folder) / "stderr"
        receiver, sender = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_answer, args=(answer_all, given, sender, noise), daemon=True)
        with server_environment():
            process.start()
        sender.close()
        answers, is_late = _received(receiver, time.monotonic() + timeout)
        if is_late:
            process.kill()
        process.join()
        code = process.exitcode
        process.close()
        assert code is not None
        stderr = noise.read_text(errors="replace")[-2000:] if noise.exists() else ""
        return Said(answers, "hang" if is_late else code, stderr)


def _received(receiver: Connection, deadline: float) -> tuple[list[Answer], bool]:
    """Return all answers before the deadline, and whether the process is late."""
    answers = []
    with receiver:
        try:
            while receiver.poll(max(0.0, deadline - time.monotonic())):
                answers.append(receiver.recv())
        except (EOFError, OSError):  # nothing, or a part of an answer
            return answers, False
    return answers, True


def _answer(answer_all: Callable[[Any], Iterable[Answer]], given: Any, sender: Connection, noise: Path) -> None:
    with noise.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    for answered in answer_all(given):
        sender.send(answered)


def answer(case: Answer) -> Answer:
    """Answer one case in a process of its own."""
    return next(answers([case]))


def answers(cases: Iterable[Answer], timeout: float = 300) -> Iterator[Answer]:
    """Yield the answer of `openvino_child.py` to each case; `{"exit": code}` if the process ended."""
    left = list(cases)
    while left:
        said = ask(openvino_child.answer_all, left, timeout)
        yield from said.answers
        left = left[len(said.answers) :]
        if left:
            assert said.code != 0
            yield {"exit": said.code, "said": said.stderr}
            left = left[1:]

"""A cluster of dask.distributed on this machine, of processes that talk over TCP.

They are forked from a server that has imported dask.distributed; see `forked.py`. Two kinds start a new interpreter
instead: processes with a configuration of Dask, which it reads when it is imported, and nannies, which start others by
multiprocessing.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from forked import Forked

Process = subprocess.Popen[bytes] | Forked
PATIENCE = 900.0
"""Seconds after which a test gives up waiting."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; `what` names it in the error."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} does not come"
        time.sleep(0.02)


class Cluster:
    """A scheduler and its workers. A context manager that ends them.

    Args:
        folder: The folder for their logs and scratch files.
        environment: The environment of the processes.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.processes: list[Process] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        return f"dask://127.0.0.1:{self.port}"

    def start_scheduler(self, **more: str) -> Process:
        """Start the scheduler, always at the same port, and wait until it answers."""
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        process = self._start("dask_scheduler", words, more)
        wait_until(lambda: self._answers() or process.poll() is not None, "the scheduler")
        assert process.poll() is None, self.logs()
        return process

    def start_worker(self, *words: str, **more: str) -> Process:
        """Start a worker of one process, without waiting until it is connected."""
        common = ["--no-dashboard", "--local-directory", str(self.folder / "local")]
        kind = [] if "--nanny" in words else ["--no-nanny"]
        return self._start("dask_worker", [f"tcp://127.0.0.1:{self.port}", *common, *kind, *words], more)

    def kill(self, process: Process) -> None:
        """End a process by SIGKILL."""
        process.kill()
        process.wait()

    def logs(self) -> str:
        """Return the output of all processes."""
        return "\n".join(file.read_text(errors="replace") for file in sorted(self.folder.glob("*.log")))

    def count_registered(self) -> int:
        """Return the number of workers that have connected so far."""
        return len(re.findall("Registered to:", self.logs()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.processes:
            self.kill(process)  # in order they take up to 30 s: each waits for the others

    def _start(self, module: str, words: list[str], more: Mapping[str, str]) -> Process:
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{len(self.processes):02d}_{module}.log"
        command = ["-m", f"distributed.cli.{module}", *words]
        process: Process
        environment = {**self.environment, **more}
        if more.keys() - {"PYTHONPATH"} or "--nanny" in words:
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment
                )
        else:
            process = Forked(command, self.folder, environment, log)
        self.processes.append(process)
        return process

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

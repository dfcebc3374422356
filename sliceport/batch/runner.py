"""Tasks on this machine: each of several threads waits for a child process of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Protocol

from sliceport.batch.process import RunStopped, process
from sliceport.batch.task import Done, Job, Task
from sliceport.sandbox import signals, supervisor


class Runner(Protocol):
    """Runner of tasks, here or on other machines."""

    def run(self, job: Job, tasks: Iterable[Task]) -> Generator[Done]:
        """Do all tasks in any order, and yield each outcome once. Read `tasks` no faster than they are done.

        Raises:
            SliceportError: Something is wrong with the run itself.
        """
        ...


class LocalRunner:
    """Runner of a fixed number of tasks at once.

    Args:
        jobs: The number of tasks at once.
        scratch: A local folder for temporary files.
    """

    def __init__(self, jobs: int, scratch: Path) -> None:
        self._jobs = jobs
        self._scratch = scratch

    def run(self, job: Job, tasks: Iterable[Task]) -> Generator[Done]:
        """Implement `Runner.run`. If the iterator is closed early, models under way are given up, without a result."""
        results: queue.Queue[Done | BaseException | None] = queue.Queue()
        source, lock, is_stopped = iter(tasks), threading.Lock(), threading.Event()

        def take() -> Task | None:
            with lock:
                return None if is_stopped.is_set() else next(source, None)

        def work() -> None:
            # Each thread ends with None, so that the loop below can count the threads that are done.
            try:
                while (task := take()) is not None:
                    results.put(process(job, task, self._scratch, is_stopped))
            except RunStopped:
                pass
            except BaseException as error:
                results.put(error)
            finally:
                results.put(None)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(self._jobs)]
        for thread in threads:
            thread.start()
        ended = 0
        try:
            while ended < len(threads):
                result = signals.take(results)
                if isinstance(result, BaseException):
                    raise result
                if result is None:
                    ended += 1
                else:
                    yield result
        finally:
            is_stopped.set()
            for thread in threads:
                while thread.is_alive():
                    supervisor.end_calls()  # repeated, because a call may just have begun
                    thread.join(0.1)

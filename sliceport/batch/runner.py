"""Tasks on this machine: each of several threads waits for a child process of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

from sliceport.batch.process import RunStopped, process_model
from sliceport.batch.task import Done, Job, Task
from sliceport.errors import UsageError
from sliceport.sandbox import signals, supervisor

Runner = Callable[[Job, Iterable[Task]], Generator[Done]]
"""A function that does all tasks of a job in any order, and yields each outcome once.

It reads only a few tasks ahead of the tasks that are done. If the generator is closed early, the processes of models
under way are ended, and these models get no result. A SliceportError that it raises is about the run itself.
"""


def run_locally(job: Job, tasks: Iterable[Task], *, jobs: int, scratch: Path) -> Generator[Done]:
    """Do tasks on this machine, `jobs` at a time, with temporary files in the local folder `scratch`; see `Runner`."""
    results: queue.Queue[Done | BaseException | None] = queue.Queue()
    remaining, lock, stop_event = iter(tasks), threading.Lock(), threading.Event()

    def take_task() -> Task | None:
        with lock:
            return None if stop_event.is_set() else next(remaining, None)

    def work() -> None:
        # Each thread puts None last, so that the loop below can count the threads that are done.
        try:
            while (task := take_task()) is not None:
                results.put(process_model(job, task, scratch, stop_event))
        except RunStopped:
            pass
        except BaseException as error:
            results.put(error)
        finally:
            results.put(None)

    threads: list[threading.Thread] = []
    ended = 0
    try:
        for _ in range(jobs):
            thread = threading.Thread(target=work, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads for this process
                message = f"--jobs {jobs}: only {len(threads)} can be under way at once ({error}); give fewer."
                raise UsageError(message) from None
            threads.append(thread)
        while ended < len(threads):
            result = signals.get_interruptibly(results)
            if isinstance(result, BaseException):
                raise result
            if result is None:
                ended += 1
            else:
                yield result
    finally:
        supervisor.end_calls(stop_event)
        for thread in threads:
            thread.join()

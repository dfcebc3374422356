"""Functions that tests call in worker processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

from sliceport.sandbox import supervisor


def say_and_abort(text: str) -> None:
    """Write to stderr and abort."""
    os.write(2, text.encode())
    os.abort()


def start_a_child_and_hang(file: str) -> None:
    """Start a process that sleeps, write its id to a file, and never end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    part = Path(f"{file}.part")
    part.write_text(str(child.pid))
    part.rename(file)
    time.sleep(600)


def limits_of_memory() -> tuple[int, int]:
    """How much this process may allocate, by its own limit and by that of its owner."""
    import resource

    return resource.getrlimit(resource.RLIMIT_DATA)


def limits_of_memory_of_a_worker(memory: int | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """The limits within a call that may take so much memory, and those in a call after it that may take any."""
    within: tuple[int, int] = supervisor.call(limits_of_memory, timeout=None, memory=memory)
    return within, supervisor.call(limits_of_memory, timeout=None, memory=None)


_kept: list[bytes] = []


def keep(count: int) -> int:
    """Take memory and keep it; returns the process."""
    _kept.append(b"x" * count)
    return os.getpid()


def take(count: int) -> int:
    """Take memory for a moment."""
    return len(bytes(count))


def let_another_take(count: int) -> int:
    """Let a worker of this worker take memory, with a bound of its own that allows it."""
    taken: int = supervisor.call(take, count, timeout=60, memory=2**40)
    return taken


class Awkward(Exception):
    """An error that pickle takes apart, and cannot put together again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def raise_awkward() -> None:
    """Raise such an error."""
    raise Awkward("this", "that")


def fork_and_exit(code: int) -> None:
    """Leave a forked process that sleeps and holds all that this one has open, and end."""
    if os.fork():
        os._exit(code)
    time.sleep(600)

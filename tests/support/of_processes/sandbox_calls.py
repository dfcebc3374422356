"""Functions that tests call in worker processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

from sliceport.sandbox import supervisor
from sliceport.sandbox.child import is_expendable


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
    """Return the soft and the hard limit of what this process may allocate."""
    import resource

    return resource.getrlimit(resource.RLIMIT_DATA)


def limits_of_memory_of_a_worker(memory: int | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the limits within a call with a bound of memory, and those within a later call without a bound."""
    within: tuple[int, int] = supervisor.call(limits_of_memory, timeout=None, memory=memory)
    return within, supervisor.call(limits_of_memory, timeout=None, memory=None)


_kept: list[bytes] = []


def keep(count: int) -> int:
    """Allocate memory, keep it, and return the id of this process."""
    _kept.append(b"x" * count)
    return os.getpid()


def take(count: int) -> int:
    """Allocate memory for a moment, and return its size."""
    return len(bytes(count))


def let_another_take(count: int) -> int:
    """Have a child of this child allocate memory, with a bound of its own that allows that."""
    size: int = supervisor.call(take, count, timeout=60, memory=2**40)
    return size


class Awkward(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def raise_awkward() -> None:
    """Raise an error that cannot be unpickled."""
    raise Awkward("this", "that")


def fork_and_exit(code: int) -> None:
    """Exit, and leave a forked process that sleeps and holds all descriptors of this process."""
    if os.fork():
        os._exit(code)
    time.sleep(600)


def crash_late_or_hang(seconds: float) -> None:
    """Abort after some seconds if a crash is acceptable, and hang otherwise."""
    if is_expendable():
        time.sleep(seconds)
        os.abort()
    time.sleep(600)

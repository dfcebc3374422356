"""A lock between processes, on a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file during the `with` block. The system releases the lock if the process dies.

    Wait while another process has the lock. Make the file and its folder if they are missing.

    Raises:
        OSError: The file cannot be opened or locked, or its folder cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _acquire(file)
        yield  # closing the file releases the lock


if sys.platform == "win32":
    import msvcrt
    import time

    def _acquire(file: IO[bytes]) -> None:
        while True:  # LK_LOCK would give up after 10 attempts
            try:
                file.seek(0)  # `locking` locks from the position in the file, and mode `a` may begin at its end
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except PermissionError:  # the lock is held; other errors occur on drives without locks
                time.sleep(0.2)
            else:
                return

else:
    import fcntl

    def _acquire(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

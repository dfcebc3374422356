"""A throw-away format whose models do to the process that reads them what their text says.

`install` makes a package of it in a folder. Processes that have the folder in `PYTHONPATH` then take `.deadly` files.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sliceport.directml.feature_levels import LATEST
from sliceport.directml.program import Program
from sliceport.errors import ModelError, UsageError
from sliceport.sandbox import supervisor

SUFFIX = ".deadly"
HUGE = 10 * 2**30


def install(folder: Path) -> Path:
    """Install the format into a folder, as pip would; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, folder / "deadly_format.py")
    info = folder / "deadly_format-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly-format\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sliceport.formats]\ndeadly = deadly_format:FORMAT\n")
    return folder


def environment(*folders: Path) -> dict[str, str]:
    """Return the environment of processes that find packages in these folders."""
    path = os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def _allocate() -> None:
    held = np.empty(HUGE, np.uint8)  # where nothing bounds memory it succeeds, and no page of it is ever touched
    raise ModelError(f"{held.size} bytes were there.")


def _die_of_bad_alloc() -> None:
    """End as a C++ library does that runs out of memory."""
    sys.stderr.write("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n")
    sys.stderr.flush()
    os.abort()


def _say_and_abort() -> None:
    sys.stderr.write("Assertion `size > 0' failed.\n")
    sys.stderr.flush()
    os.abort()


def _raise(error: Exception) -> None:
    raise error


def _spin() -> None:
    while True:
        pass


def _kill_parent() -> None:
    """Kill the process that waits for this one, as a machine without memory does."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def fail_to_write(error: Exception) -> None:
    """Fail as a command does that meets an error while it writes."""
    try:
        raise error
    except Exception:
        raise UsageError(f"output 'model' cannot be written ({error}).") from None


class _Odd(Program):
    """A program that JSON cannot hold."""

    def to_json(self) -> dict[str, Any]:
        return {"a": object()}


class _Infinite(Program):
    """A program with numbers that JSON lacks."""

    def to_json(self) -> dict[str, Any]:
        return {"a": [math.nan, math.inf, 1.5]}


_ACTIONS: dict[str, Callable[[], Any]] = {
    "": lambda: None,
    "change": lambda: None,
    "wait": lambda: None,
    "abort": os.abort,
    "say and abort": _say_and_abort,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "exit": lambda: os._exit(3),
    "end": lambda: os._exit(0),
    "hang": lambda: time.sleep(600),
    "spin": _spin,
    "slow": lambda: time.sleep(0.5),
    "allocate": _allocate,
    "bad_alloc": _die_of_bad_alloc,
    "refuse": lambda: _raise(ModelError("it is refused.")),
    "raise": lambda: _raise(ZeroDivisionError("it divides\nby 0")),
    "kill parent": _kill_parent,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "fill the disk": lambda: fail_to_write(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
    "lack memory": lambda: fail_to_write(RuntimeError("std::bad_alloc")),
    "use up memory": lambda: supervisor.call(bytearray, HUGE, timeout=60),  # in a process of its own
    "lose a worker": lambda: supervisor.call(signal.raise_signal, signal.SIGKILL, timeout=60),
    "be odd": lambda: _Odd(LATEST, ()),
    "be infinite": lambda: _Infinite(LATEST, ()),
}
"""By the first line of a file, what reading it does; anything else after that line only makes the file another one."""


class Deadly:
    """Models that are read at a risk; those that are read have no nodes."""

    name = "deadly"
    title = "Deadly"
    suffixes = (SUFFIX,)
    packages: tuple[str, ...] = ()
    reference = ("deadly", "computes nothing")
    default_executors: tuple[str, ...] = ()
    targets: Mapping[str, tuple[str, ...]] = {}

    def passes(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return no passes."""
        return {}, {}

    def lower(self, model: Any, **_: Any) -> Program:
        """Read a file."""
        action = Path(model).read_text(encoding="utf-8").partition("\n")[0]
        if action not in _ACTIONS:
            raise ModelError(f"'{model}' holds {action!r}, which nobody knows.")
        while action == "wait" and not Path(model).with_name("open").exists():
            time.sleep(0.05)
        if action == "change":
            with open(model, "a", encoding="utf-8") as file:
                file.write("!")
        return _ACTIONS[action]() or Program(LATEST, ())

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise UsageError("models of this format are only lowered.")

    check = compare = rewrite = harden = run_on_directml = _refuse


FORMAT = Deadly()


def write_models(folder: Path, actions: Sequence[str]) -> list[Path]:
    """Write a file for each action, of distinct contents; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for i, action in enumerate(actions):
        assert action in _ACTIONS
        file = folder / f"{i:04d}_{action.replace(' ', '_') or 'clean'}{SUFFIX}"
        file.write_text(f"{action}\n{i}\n", encoding="utf-8")
        written.append(file)
    return written

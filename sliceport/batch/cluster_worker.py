"""What the worker of a cluster does for a run: it finds out whether it fits, and does tasks.

A worker is asked by `pack_call`, and answers with bytes and text. It may serve several runs, each by several threads.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import pickle
import platform
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sliceport.batch.process import RunStopped, process
from sliceport.batch.store import Store, open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import SliceportError, UsageError
from sliceport.sandbox import supervisor

_BUDGET = 2.0
"""Seconds after which a worker begins no other task of a chunk, but gives back the rest."""
_MAX_IDLE = 600.0
"""Seconds without a task after which a worker forgets a run when another one comes."""
_PATIENCE = 5.0
"""Seconds in which tasks under way are ended."""


@dataclass(frozen=True)
class Setup:
    """What a worker needs to know of a run.

    Attributes:
        run: What tells the run from others.
        job: What all tasks have in common.
        marker: A file of the results and the hash of its first line, by which a worker knows that it sees them.
        model: A model's path that is there; None where none is known.
    """

    run: str
    job: Job
    marker: tuple[str, str] | None = None
    model: str | None = None


@dataclass
class _ActiveRun:
    """A run that this process works for.

    Attributes:
        store: Where its results go.
        scratch: Where its files are written before they go there.
        is_stopped: Set when the run is over.
        threads: How many threads do tasks of it.
        last_used: When one last did, by `time.monotonic`.
    """

    store: Store
    scratch: Path
    is_stopped: threading.Event = field(default_factory=threading.Event)
    threads: int = 0
    last_used: float = field(default_factory=time.monotonic)


_active_runs: dict[str, _ActiveRun] = {}
_finished: set[str] = set()
"""The runs that are over: a chunk of one may still come."""
_lock = threading.Lock()


def pack_versions() -> bytes:
    """What all that work on a run must have in common: packages, and Python."""
    return json.dumps(versions() | {"python": ".".join(platform.python_version_tuple()[:2])}).encode()


def pack(*values: object) -> bytes:
    """What goes to a worker or comes back, as bytes that a scheduler does not look into."""
    return pickle.dumps(values)


def unpack(data: bytes) -> tuple[object, ...]:
    """What was packed."""
    values: tuple[object, ...] = pickle.loads(data)  # noqa: S301 - between processes that run each other's code anyway
    return values


@dataclass(frozen=True)
class _Call:
    """A call of a function, which takes place when it is unpickled."""

    function: Callable[..., object]
    arguments: tuple[object, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.function, self.arguments


def pack_call(function: Callable[..., object], *arguments: object) -> bytes:
    """A call of a function, for `pickle.loads` to make.

    A worker of Dask that has no sliceport ends when it is sent a function of sliceport, but not when it is sent this.
    """
    return pickle.dumps(_Call(function, arguments))


def inspect(needed: bytes, packed: bytes) -> str:
    """Find out whether this worker fits a run; returns its scratch folder.

    Raises:
        UsageError: It does not, and why.
    """
    active_run = _join_run(needed, packed)
    return "" if active_run is None else str(active_run.scratch)


def do_chunk(needed: bytes, packed: bytes, packed_tasks: bytes) -> bytes:
    """Do tasks, from the first on until it takes long; returns what became of them.

    Args:
        needed: `pack_versions` where the run was started.
        packed: The `Setup`.
        packed_tasks: The tasks.

    Raises:
        UsageError: This worker does not fit the run, or results cannot be read or stored.
    """
    active_run = _join_run(needed, packed)
    if active_run is None:
        return pack()
    job = _read_setup(packed).job
    tasks: Sequence[Task] = unpack(packed_tasks)  # type: ignore[assignment]
    done: list[Done] = []
    begun = time.monotonic()
    with _lock:
        active_run.threads += 1
    try:
        for task in tasks:
            if active_run.is_stopped.is_set() or (done and time.monotonic() - begun > _BUDGET):
                break
            done.append(process(job, task, active_run.scratch, active_run.is_stopped))
    except RunStopped:
        pass
    finally:
        with _lock:
            active_run.threads -= 1
            active_run.last_used = time.monotonic()
    return pack(*done)


def end_run(run: str) -> None:
    """Begin to end a run in this process, and to remove its files."""
    threading.Thread(target=_end_run, args=[run], daemon=True).start()


def _join_run(needed: bytes, packed: bytes) -> _ActiveRun | None:
    """The run in this process, which is inspected when it first comes; None where the run is over."""
    _check_versions(needed)
    setup = _read_setup(packed)
    with _lock:
        if setup.run in _finished:
            return None
        if setup.run not in _active_runs:
            for run in [run for run, other in _active_runs.items() if _is_idle(other)]:
                _forget(run)  # whoever started it was killed, or lets others work
            _active_runs[setup.run] = _start_run(setup)
        active_run = _active_runs[setup.run]
        active_run.last_used = time.monotonic()
        return active_run


def _read_setup(packed: bytes) -> Setup:
    (setup,) = unpack(packed)
    assert isinstance(setup, Setup)
    return setup


def _is_idle(active_run: _ActiveRun) -> bool:
    return not active_run.threads and time.monotonic() - active_run.last_used > _MAX_IDLE


def _check_versions(needed: bytes) -> None:
    here, there = json.loads(pack_versions()), json.loads(needed)
    difference = describe_difference(here, there)
    if difference:
        raise UsageError(
            f"{_name()} would compute something else than this machine: it has {difference}; "
            "let all have the same versions."
        )


def _start_run(setup: Setup) -> _ActiveRun:
    try:
        store = open_store(setup.job.root)
        if setup.marker is not None and _read_marker(store, setup.marker[0]) != setup.marker:
            raise UsageError(
                f"{_name()} does not see '{setup.job.root}/{setup.marker[0]}', which this machine has written; "
                "results must go to a folder that all see by the same path, or to the URL of a bucket."
            )
        if setup.model is not None and not os.path.exists(setup.model):
            raise UsageError(
                f"{_name()} does not see the model '{setup.model}'; "
                "models must lie in a folder that all see by the same path, or be given as URLs."
            )
        return _ActiveRun(store, store.new_scratch())
    except SliceportError as error:
        name = _name()
        raise UsageError(str(error) if name in str(error) else f"{name}: {error}") from None


def _read_marker(store: Store, name: str) -> tuple[str, str] | None:
    data = store.read(name)
    return None if data is None else (name, hashlib.sha256(data.partition(b"\n")[0]).hexdigest())


def find_marker(store: Store) -> tuple[str, str] | None:
    """A file of the results by which a worker can show that it sees them; None where there is none.

    Raises:
        UsageError: The results cannot be read.
    """
    journals = list(store.names("runs"))
    return _read_marker(store, journals[-1]) if journals else None


def _name() -> str:
    """This process, in sentences."""
    return f"the worker on {socket.gethostname()} (process {os.getpid()})"


def _end_run(run: str) -> None:
    with _lock:
        _finished.add(run)
        active_run = _active_runs.get(run)
        if active_run is None:
            return
        active_run.is_stopped.set()
    deadline = time.monotonic() + _PATIENCE
    while active_run.threads and time.monotonic() < deadline:
        with _lock:
            if not any(other.threads for name, other in _active_runs.items() if name != run):
                supervisor.end_calls()  # again and again: one may just have begun. None of another run is among them.
        time.sleep(0.05)
    with _lock:
        _forget(run)
        if not _active_runs:
            supervisor.end_idle()


def _forget(run: str) -> None:
    active_run = _active_runs.pop(run)
    active_run.store.remove_scratch(active_run.scratch)


@atexit.register
def _forget_all() -> None:
    for run in list(_active_runs):
        with suppress(Exception):
            _forget(run)

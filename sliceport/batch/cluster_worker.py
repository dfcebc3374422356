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

from sliceport import guarded
from sliceport.batch.process import RunStopped, process
from sliceport.batch.store import Store, open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import SliceportError, UsageError

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
        proof: A file of the results and the hash of its first line, by which a worker knows that it sees them.
        model: A model's path that is there; None where none is known.
    """

    run: str
    job: Job
    proof: tuple[str, str] | None = None
    model: str | None = None


@dataclass
class _Visit:
    """A run that this process works for.

    Attributes:
        store: Where its results go.
        scratch: Where its files are written before they go there.
        is_stopped: Set when the run is over.
        active: How many threads do tasks of it.
        used: When one last did, by `time.monotonic`.
    """

    store: Store
    scratch: Path
    is_stopped: threading.Event = field(default_factory=threading.Event)
    active: int = 0
    used: float = field(default_factory=time.monotonic)


_visits: dict[str, _Visit] = {}
_over: set[str] = set()
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
    visit = _enter(needed, packed)
    return "" if visit is None else str(visit.scratch)


def do_chunk(needed: bytes, packed: bytes, packed_tasks: bytes) -> bytes:
    """Do tasks, from the first on until it takes long; returns what became of them.

    Args:
        needed: `pack_versions` where the run was started.
        packed: The `Setup`.
        packed_tasks: The tasks.

    Raises:
        UsageError: This worker does not fit the run, or results cannot be read or stored.
    """
    visit = _enter(needed, packed)
    if visit is None:
        return pack()
    job = _read_setup(packed).job
    tasks: Sequence[Task] = unpack(packed_tasks)  # type: ignore[assignment]
    done: list[Done] = []
    begun = time.monotonic()
    with _lock:
        visit.active += 1
    try:
        for task in tasks:
            if visit.is_stopped.is_set() or (done and time.monotonic() - begun > _BUDGET):
                break
            done.append(process(job, task, visit.scratch, visit.is_stopped))
    except RunStopped:
        pass
    finally:
        with _lock:
            visit.active -= 1
            visit.used = time.monotonic()
    return pack(*done)


def leave(run: str) -> None:
    """Begin to end what this process does for a run, and to remove its files."""
    threading.Thread(target=_leave, args=[run], daemon=True).start()


def _enter(needed: bytes, packed: bytes) -> _Visit | None:
    """The run in this process, which is inspected when it first comes; None where the run is over."""
    _check_versions(needed)
    setup = _read_setup(packed)
    with _lock:
        if setup.run in _over:
            return None
        if setup.run not in _visits:
            for run in [run for run, visit in _visits.items() if not visit.active and _is_old(visit)]:
                _forget(run)  # whoever started it was killed, or lets others work
            _visits[setup.run] = _begin(setup)
        visit = _visits[setup.run]
        visit.used = time.monotonic()
        return visit


def _read_setup(packed: bytes) -> Setup:
    (setup,) = unpack(packed)
    assert isinstance(setup, Setup)
    return setup


def _is_old(visit: _Visit) -> bool:
    return time.monotonic() - visit.used > _MAX_IDLE


def _check_versions(needed: bytes) -> None:
    here, there = json.loads(pack_versions()), json.loads(needed)
    difference = describe_difference(here, there)
    if difference:
        raise UsageError(
            f"{_name()} would compute something else than this machine: it has {difference}; "
            "let all have the same versions."
        )


def _begin(setup: Setup) -> _Visit:
    try:
        store = open_store(setup.job.root)
        if setup.proof is not None and _prove(store, setup.proof[0]) != setup.proof:
            raise UsageError(
                f"{_name()} does not see '{setup.job.root}/{setup.proof[0]}', which this machine has written; "
                "results must go to a folder that all see by the same path, or to the URL of a bucket."
            )
        if setup.model is not None and not os.path.exists(setup.model):
            raise UsageError(
                f"{_name()} does not see the model '{setup.model}'; "
                "models must lie in a folder that all see by the same path, or be given as URLs."
            )
        return _Visit(store, store.new_scratch())
    except SliceportError as error:
        name = _name()
        raise UsageError(str(error) if name in str(error) else f"{name}: {error}") from None


def _prove(store: Store, name: str) -> tuple[str, str] | None:
    data = store.read(name)
    return None if data is None else (name, hashlib.sha256(data.partition(b"\n")[0]).hexdigest())


def find_proof(store: Store) -> tuple[str, str] | None:
    """A file of the results by which a worker can show that it sees them; None where there is none.

    Raises:
        UsageError: The results cannot be read.
    """
    journals = list(store.names("runs"))
    return _prove(store, journals[-1]) if journals else None


def _name() -> str:
    """This process, in sentences."""
    return f"the worker on {socket.gethostname()} (process {os.getpid()})"


def _leave(run: str) -> None:
    with _lock:
        _over.add(run)
        visit = _visits.get(run)
        if visit is None:
            return
        visit.is_stopped.set()
    deadline = time.monotonic() + _PATIENCE
    while visit.active and time.monotonic() < deadline:
        with _lock:
            if not any(other.active for name, other in _visits.items() if name != run):
                guarded.end_calls()  # again and again: one may just have begun. None of another run is among them.
        time.sleep(0.05)
    with _lock:
        _forget(run)
        if not _visits:
            guarded.end_idle()


def _forget(run: str) -> None:
    visit = _visits.pop(run)
    visit.store.remove_scratch(visit.scratch)


@atexit.register
def _forget_all() -> None:
    for run in list(_visits):
        with suppress(Exception):
            _forget(run)

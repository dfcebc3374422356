"""The worker's side of a run on a cluster. A worker may serve several runs, each by several threads."""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import socket
import threading
import time
from dataclasses import dataclass

from sliceport.batch.process import RunStopped, process
from sliceport.batch.store import Store, open_store
from sliceport.batch.task import Job
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import SliceportError
from sliceport.sandbox import supervisor

_PATIENCE = 5.0
"""Seconds in which tasks under way are ended."""


@dataclass(frozen=True)
class Setup:
    """A run as a worker has to know it.

    Attributes:
        job: The command, options and results of the run.
        marker: A file of the results and the hash of its first line. A worker that reads the same sees the results.
        model: The path of a model, or None if no model is at a path.
    """

    job: Job
    marker: tuple[str, str] | None = None
    model: str | None = None


_stopped: dict[str, threading.Event] = {}
"""For each run that this worker fits, an event that is set when the run is over."""
_at_work: set[tuple[str, int]] = set()
"""The name of the run and the thread of each task under way."""


def needed_versions() -> dict[str, str]:
    """Return the versions that all machines of a run must share: packages, and Python."""
    return versions() | {"python": ".".join(platform.python_version_tuple()[:2])}


def find_marker(store: Store) -> tuple[str, str] | None:
    """Return a file of the results and the hash of its first line, or None if no file is there yet."""
    journals = list(store.names("runs"))
    return _read_marker(store, journals[-1]) if journals else None


def _read_marker(store: Store, name: str) -> tuple[str, str] | None:
    # The first line is the header of a journal. The other lines are still being written.
    data = store.read(name)
    return None if data is None else (name, hashlib.sha256(data.partition(b"\n")[0]).hexdigest())


def serve(run: str, needed: dict[str, str], packed: bytes) -> tuple[str, bytes]:
    """Do a task of a run. Return why this worker does not fit, or an empty string, and the pickled outcome.

    Args:
        run: The name of the run.
        needed: The versions that the worker must have.
        packed: The pickled `Setup` and `Task`. Only the same versions can read them.

    Raises:
        RunStopped: The run is over.
        UsageError: Results cannot be read or stored.
    """
    if difference := describe_difference(needed_versions(), needed):
        return f"{_name_worker()} has {difference}, and would compute something else; install the same versions.", b""
    setup, task = pickle.loads(packed)  # noqa: S301 - from the client, whose code runs here anyway
    if run not in _stopped and (refusal := describe_refusal(setup)):
        return refusal, b""
    is_stopped = _stopped.setdefault(run, threading.Event())
    if is_stopped.is_set():
        raise RunStopped
    at_work = (run, threading.get_ident())
    store = open_store(setup.job.root)
    scratch = store.new_scratch()
    _at_work.add(at_work)
    try:
        return "", pickle.dumps(process(setup.job, task, scratch, is_stopped))
    finally:
        _at_work.discard(at_work)
        store.remove_scratch(scratch)


def describe_refusal(setup: Setup) -> str:
    """Return the file of a run that this worker does not see, in a sentence, or an empty string."""
    root = setup.job.root
    try:
        sees_results = setup.marker is None or _read_marker(open_store(root), setup.marker[0]) == setup.marker
    except SliceportError as error:
        return f"{_name_worker()}: {error}"
    if setup.marker is not None and not sees_results:
        file = f"'{root}/{setup.marker[0]}', which this machine has written; results"
        return (
            f"{_name_worker()} does not see {file} must go to a folder that all see by the same path, or to a bucket."
        )
    if setup.model is not None and not os.path.exists(setup.model):
        file = f"the model '{setup.model}'; models"
        return f"{_name_worker()} does not see {file} must lie in a folder that all see by the same path, or at URLs."
    return ""


def _name_worker() -> str:
    return f"the worker on {socket.gethostname()} (process {os.getpid()})"


def stop_run(run: str) -> None:
    """End the tasks of a run that are under way. They go on if tasks of other runs are under way, too."""
    _stopped.setdefault(run, threading.Event()).set()
    deadline = time.monotonic() + _PATIENCE
    while any(name == run for name, _ in list(_at_work)) and time.monotonic() < deadline:
        if all(name == run for name, _ in list(_at_work)):
            supervisor.end_calls()  # again and again: a call may just have begun
        time.sleep(0.05)
    if not _at_work:
        supervisor.end_idle()

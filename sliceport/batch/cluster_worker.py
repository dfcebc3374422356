"""The worker's side of a run on a cluster. A worker may serve several runs, each by several threads."""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass

from sliceport.batch.process import RunStopped, process
from sliceport.batch.store import Store, open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import SliceportError
from sliceport.sandbox import supervisor

_PATIENCE = 5.0
"""Seconds in which tasks under way are ended."""


@dataclass(frozen=True)
class Setup:
    """A run as a worker has to know it.

    Attributes:
        run: The name of the run.
        job: The command, options and results of the run.
        versions: The versions that the worker must have.
        marker: A file of the results and the hash of its first line, by which a worker knows that it sees them.
        model: The path of a model, or None if there is none at a path.
    """

    run: str
    job: Job
    versions: dict[str, str]
    marker: tuple[str, str] | None = None
    model: str | None = None


_stopped: dict[str, threading.Event] = {}
"""For each run that this process serves, an event that is set when the run is over."""
_at_work: Counter[str] = Counter()
"""The number of threads that do tasks of a run."""


def needed_versions() -> dict[str, str]:
    """Return the versions that all machines of a run must share: packages, and Python."""
    return versions() | {"python": ".".join(platform.python_version_tuple()[:2])}


def find_marker(store: Store) -> tuple[str, str] | None:
    """Return a file of the results and the hash of its first line, or None if there is none yet."""
    journals = list(store.names("runs"))
    return _read_marker(store, journals[-1]) if journals else None


def _read_marker(store: Store, name: str) -> tuple[str, str] | None:
    # The first line is the header of a journal. The other lines are still being written.
    data = store.read(name)
    return None if data is None else (name, hashlib.sha256(data.partition(b"\n")[0]).hexdigest())


def start_run(packed: bytes) -> str:
    """Begin to serve a run, given by its pickled `Setup`; returns why this worker does not fit, or an empty string."""
    setup: Setup = pickle.loads(packed)  # noqa: S301 - from the client, whose code runs here anyway
    name, root = f"the worker on {socket.gethostname()} (process {os.getpid()})", setup.job.root
    if difference := describe_difference(needed_versions(), setup.versions):
        return f"{name} has {difference}, and would compute something else; install the same versions."
    try:
        sees_results = setup.marker is None or _read_marker(open_store(root), setup.marker[0]) == setup.marker
    except SliceportError as error:
        return f"{name}: {error}"
    if setup.marker is not None and not sees_results:
        file = f"'{root}/{setup.marker[0]}', which this machine has written; results"
        return f"{name} does not see {file} must go to a folder that all see by the same path, or to a bucket."
    if setup.model is not None and not os.path.exists(setup.model):
        file = f"the model '{setup.model}'"
        return f"{name} does not see {file}; models must lie in a folder that all see by the same path, or at URLs."
    _stopped[setup.run] = threading.Event()
    return ""


def do_task(run: str, job: Job, task: Task) -> Done:
    """Do a task of a run.

    Raises:
        RunStopped: The run is over.
        UsageError: Results cannot be read or stored.
    """
    if (is_stopped := _stopped.get(run)) is None:
        raise RunStopped
    store = open_store(job.root)
    scratch = store.new_scratch()
    _at_work[run] += 1
    try:
        return process(job, task, scratch, is_stopped)
    finally:
        _at_work[run] -= 1
        store.remove_scratch(scratch)


def stop_run(run: str) -> None:
    """End the tasks of a run that are under way. They go on if tasks of other runs are under way, too."""
    if (is_stopped := _stopped.pop(run, None)) is None:
        return
    is_stopped.set()
    deadline = time.monotonic() + _PATIENCE
    while _at_work[run] and time.monotonic() < deadline:
        if not any(count for other, count in list(_at_work.items()) if other != run):
            supervisor.end_calls()  # again and again: a call may just have begun
        time.sleep(0.05)
    if not _stopped:
        supervisor.end_idle()

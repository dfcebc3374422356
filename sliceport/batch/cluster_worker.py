"""The worker's side of a run on a cluster. A worker may serve several runs, each by several threads."""

from __future__ import annotations

import os
import pickle
import platform
import threading

from sliceport.batch.process import process
from sliceport.batch.store import open_store
from sliceport.batch.task import Done
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import SliceportError
from sliceport.sandbox import supervisor

_stop_events: dict[str, threading.Event] = {}
"""An event for each run that this worker has accepted, or that is over. The event is set when the run is over."""


def needed_versions() -> dict[str, str]:
    """Return the versions that all machines of a run must share: packages, and Python."""
    return versions() | {"python": ".".join(platform.python_version_tuple()[:2])}


def serve(run: str, needed: dict[str, str], packed: bytes) -> Done | str:
    """Do a task of a run and return the outcome. If this worker does not fit the run, return why, as a predicate.

    The worker needs the versions in `needed`. `packed` holds the pickled job, task, name of the journal and path of the
    model. They are unpickled after the versions are compared, because other versions may fail to read them.

    Raises:
        RunStopped: The run is over.
        UsageError: Results cannot be read or stored, or no child process can be started.
    """
    if difference := describe_difference(needed_versions(), needed):
        return f"has {difference}, and would compute something else; install the same versions."
    job, task, journal, model = pickle.loads(packed)  # noqa: S301 - from the client, whose code runs here anyway
    # A run that this worker has accepted is not checked again.
    if run not in _stop_events and (refusal := describe_refusal(job.root, journal, model)):
        return refusal
    stop_event = _stop_events.setdefault(run, threading.Event())
    store = open_store(job.root)
    scratch = store.new_scratch()
    try:
        return process(job, task, scratch, stop_event)
    finally:
        store.remove_scratch(scratch)
        if stop_event.is_set():
            supervisor.end_idle()


def describe_refusal(root: str, journal: str, model: str | None) -> str:
    """Return why this worker cannot take part in a run, as a predicate. Return "" if it sees the results and the model.

    The folder or URL `root` holds the results if it contains the journal, because the name of the journal is random.
    `model` is a path. It is None if the model is at a URL, or if the client does not see the model either.
    """
    try:
        sees_results = open_store(root).has(journal)
    except SliceportError as error:
        return f"cannot open the results: {error}"
    if sees_results and (model is None or os.path.exists(model)):
        return ""
    missing = model if sees_results else f"{root}/{journal}"
    rule = "models and results must lie in folders that all machines see by the same path, or at URLs"
    return f"does not see '{missing}'; {rule}."


def stop_run(run: str) -> None:
    """End the tasks of a run on this worker, and the idle child processes. Tasks of other runs go on."""
    supervisor.end_calls(_stop_events.setdefault(run, threading.Event()))
    supervisor.end_idle()

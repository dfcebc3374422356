"""The worker's side of a run on a cluster. A worker may serve several runs, each by several threads."""

from __future__ import annotations

import asyncio
import os
import pickle
import platform
import threading

from sliceport.batch.process import RunStopped, process
from sliceport.batch.store import open_store
from sliceport.batch.task import Done
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import SliceportError
from sliceport.sandbox import supervisor

_stop_events: dict[str, threading.Event] = {}
"""An event for each run that this worker has accepted, or that is over. The event is set when the run is over."""
_runs_of_tasks: list[str] = []
"""The name of the run of each task under way."""


def needed_versions() -> dict[str, str]:
    """Return the versions that all machines of a run must share: packages, and Python."""
    return versions() | {"python": ".".join(platform.python_version_tuple()[:2])}


def serve(run: str, needed: dict[str, str], packed: bytes) -> Done | str:
    """Do a task of a run and return the outcome. If this worker does not fit the run, return why, as a predicate.

    The worker needs the versions in `needed`. `packed` holds the pickled job, task, name of the journal and path of the
    model. They are unpickled after the versions are compared, because other versions may fail to read them.

    Raises:
        RunStopped: The run is over.
        UsageError: Results cannot be read or stored.
    """
    if difference := describe_difference(needed_versions(), needed):
        return f"has {difference}, and would compute something else; install the same versions."
    job, task, journal, model = pickle.loads(packed)  # noqa: S301 - from the client, whose code runs here anyway
    if run not in _stop_events and (refusal := describe_refusal(job.root, journal, model)):
        return refusal
    stop_event = _stop_events.setdefault(run, threading.Event())
    store = open_store(job.root)
    scratch = store.new_scratch()
    _runs_of_tasks.append(run)
    try:
        if stop_event.is_set():  # from here on, `stop_run` ends the task
            raise RunStopped
        return process(job, task, scratch, stop_event)
    finally:
        _runs_of_tasks.remove(run)
        store.remove_scratch(scratch)


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


async def stop_run(run: str) -> None:
    """End the tasks of a run. While this worker has tasks of other runs, wait: `end_calls` would end them as well."""
    _stop_events.setdefault(run, threading.Event()).set()
    while run in _runs_of_tasks:
        if set(_runs_of_tasks) == {run}:
            supervisor.end_calls()  # repeated, because a call may just have begun
        await asyncio.sleep(0.05)
    if not _runs_of_tasks:
        supervisor.end_idle()

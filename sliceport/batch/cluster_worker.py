"""The worker's side of a run on a cluster. A worker may serve several runs, each by several threads."""

from __future__ import annotations

import os
import pickle
import platform
import socket
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from sliceport.batch.process import RunStopped, process
from sliceport.batch.store import open_store
from sliceport.batch.task import Done
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import SliceportError
from sliceport.sandbox import supervisor

_STOP_TIMEOUT = 5.0
"""Seconds to end the tasks of a stopped run."""
_stop_events: dict[str, threading.Event] = {}
"""An event for each run that this worker has accepted, or that is over. It is set when the run is over."""
_runs_of_tasks: list[str] = []
"""The name of the run of each task under way."""


def needed_versions() -> dict[str, str]:
    """Return the versions that all machines of a run must share: packages, and Python."""
    return versions() | {"python": ".".join(platform.python_version_tuple()[:2])}


def serve(run: str, needed: dict[str, str], packed: bytes) -> tuple[str, str, Done | None]:
    """Do a task of a run.

    Args:
        run: The name of the run.
        needed: The versions that the worker must have.
        packed: The pickled job, task, journal and model; see `describe_refusal`. Other versions may fail to read them.

    Returns:
        The address of this worker; why the worker does not fit, or an empty string; and the outcome if it fits.

    Raises:
        RunStopped: The run is over.
        UsageError: Results cannot be read or stored.
    """
    from distributed import get_worker

    address = get_worker().address
    if difference := describe_difference(needed_versions(), needed):
        rule = "and would compute something else; install the same versions"
        return address, f"{_name_worker()} has {difference}, {rule}.", None
    job, task, journal, model = pickle.loads(packed)  # noqa: S301 - from the client, whose code runs here anyway
    if run not in _stop_events and (refusal := describe_refusal(job.root, journal, model)):
        return address, refusal, None
    stop_event = _stop_events.setdefault(run, threading.Event())
    if stop_event.is_set():
        raise RunStopped
    store = open_store(job.root)
    scratch = store.new_scratch()
    _runs_of_tasks.append(run)
    try:
        return address, "", process(job, task, scratch, stop_event)
    finally:
        _runs_of_tasks.remove(run)
        store.remove_scratch(scratch)


def describe_refusal(root: str, journal: str, model: str | None) -> str:
    """Return the reason why this worker cannot take part in a run. Return "" if it sees the results and the model.

    Args:
        root: The folder or URL of the results.
        journal: The name of a journal. It is random, so a folder with this file is the folder of the results.
        model: The path of the model; None for a model at a URL, or one that the client does not see either.
    """
    try:
        sees_results = open_store(root).has(journal)
    except SliceportError as error:
        return f"{_name_worker()}: {error}"
    if sees_results and (model is None or os.path.exists(model)):
        return ""
    missing = model if sees_results else f"{root}/{journal}"
    rule = "models and results must lie in folders that all machines see by the same path, or at URLs"
    return f"{_name_worker()} does not see '{missing}'; {rule}."


def _name_worker() -> str:
    return f"the worker on {socket.gethostname()} (process {os.getpid()})"


def stop_run(run: str) -> None:
    """End the tasks of a run, unless this worker has tasks of other runs, which `end_calls` would end as well."""
    _stop_events.setdefault(run, threading.Event()).set()

    def end_tasks() -> None:
        deadline = time.monotonic() + _STOP_TIMEOUT
        while run in _runs_of_tasks and time.monotonic() < deadline:
            if set(_runs_of_tasks) == {run}:
                supervisor.end_calls()  # repeated, because a call may just have begun
            time.sleep(0.05)
        if not _runs_of_tasks:
            supervisor.end_idle()

    threading.Thread(target=end_tasks, daemon=True).start()  # the current thread has to answer the scheduler


def make_remote(name: str) -> Callable[..., Any]:
    """Return a function that calls a function of this module on a worker.

    The returned function is a local one. Dask pickles the code of a local function, but only the name of a global one,
    which a scheduler without sliceport could not load.
    """

    def call(*args: Any) -> Any:
        try:
            module = import_module("sliceport.batch.cluster_worker")
        except ImportError as error:
            from distributed import get_worker

            address = get_worker().address
            return (
                address,
                f"the worker at {address} lacks this version of sliceport ({error}); install it there.",
                None,
            )
        return getattr(module, name)(*args)

    return call

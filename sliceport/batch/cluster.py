"""Tasks on a cluster: the scheduler of dask.distributed gives them to its workers.

The workers write results to the store. If a worker dies, Dask gives its tasks to other workers. If the scheduler is
lost, the run ends, and the same command continues it. A worker may serve several runs at once, on several threads.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import re
import threading
import time
from asyncio import CancelledError
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from sliceport.batch.process import Runner, process_model
from sliceport.batch.result import make_failure_row
from sliceport.batch.store import open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.batch.versions import describe_difference, versions
from sliceport.errors import MissingExtra, SliceportError, UsageError
from sliceport.sandbox import progress, supervisor

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

_URL = re.compile(r"(?:dask://|(tcp://|tls://))((?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5})/?")
"""Protocol, host and port of a scheduler. For `dask://`, Dask's configuration sets the protocol."""
_TIMEOUT = 20.0
"""Seconds to wait for the scheduler: to connect, to stop the run on its workers, and to disconnect."""
_INTERVAL = 3.0
"""Seconds between two looks for workers while no task ends."""
_stop_events: dict[str, threading.Event] = {}
"""An event for each run that this worker has accepted, or that is over. The event is set when the run is over."""


def open_cluster(url: str) -> Runner:
    """Connect to a cluster, and return a runner that gives tasks to its workers.

    Raises:
        UsageError: The URL is not one of a scheduler, or the scheduler cannot be reached.
        MissingExtra: distributed is not installed.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise UsageError(f"--cluster must be dask://HOST:PORT, the scheduler of dask.distributed, got {url!r}.")
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise MissingExtra.of("distributed", "dask", "by --cluster") from None
    # These loggers print tracebacks when a scheduler ends.
    for name in ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    address = (match[1] or "") + match[2]
    progress.say(f"connecting to {address}")
    try:
        client = Client(address, timeout=_TIMEOUT, set_as_default=False, name="sliceport")
    except Exception as error:  # each cause, such as the network or TLS, has errors of its own
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise UsageError(f"--cluster: the scheduler at {address} cannot be reached ({reason}).") from None
    return _DaskRunner(client, address, as_completed(loop=client.loop, with_results=True, raise_errors=False)).run


class _DaskRunner:
    """A runner that gives tasks to the workers of a scheduler.

    A worker fits a run if it has the same versions of all packages, and sees the models and the results. A worker that
    does not fit refuses its tasks, and the runner submits them again. No WorkerPlugin checks this in advance: a worker
    that cannot load a registered plugin does not start, and the plugin of a killed client stays registered.
    """

    def __init__(self, client: Client, address: str, completed: as_completed) -> None:
        self._client, self._address, self._completed = client, address, completed
        loss = f"--cluster: the connection to the scheduler at {address} is lost"
        self._loss = UsageError(f"{loss}; run the same command again to continue.")
        self._tasks: dict[Future[Any], Task] = {}
        """Tasks under way, by their future."""
        self._threads: dict[str, int] = {}
        """Number of threads of each worker that may fit, by its address."""
        self._refusals: dict[str, str] = {}
        """For each worker that does not fit, by its address: why it refuses the run."""
        self._error: SliceportError | None = None
        """Error that a task raised and that ends the run, for example because results cannot be stored."""
        self._has_results = False  # whether an outcome has come back; before that, a run ends if no worker accepts it
        self._waits_for_worker = False  # whether the lack of a worker has been announced

    def run(self, job: Job, tasks: Iterable[Task]) -> Generator[Done]:
        """Give all tasks to the workers. Yield each outcome once. Raise a SliceportError if the run cannot go on."""
        client, completed, remaining = self._client, self._completed, iter(tasks)
        try:
            # A worker that finds this journal sees the folder of the results. A run that began after this one may have
            # written the latest journal, which is as good a proof.
            journal = open_store(job.root).names("runs")[-1]
            while True:
                results = completed.next_batch(block=False)
                # Dask cancels all futures if the connection is lost, even if the client connects again.
                if any(future.cancelled() for future in self._tasks):
                    raise self._loss
                outcomes, refused = self._read_results(job, results)
                yield from outcomes  # before an error of a task or of the connection ends the run
                if self._error is not None:
                    raise self._error
                self._look_for_workers()
                # If a worker dies, Dask counts that against each of its tasks, and gives up a task after a few deaths.
                # So the scheduler gets only a few tasks for each thread, and no worker can have many.
                new_count = max(32, 4 * sum(self._threads.values())) - len(self._tasks) - len(refused)
                self._submit(job, journal, [*refused, *islice(remaining, max(0, new_count))])
                if not self._tasks:
                    return
                with completed.thread_condition:
                    completed.thread_condition.wait_for(completed.has_ready, _INTERVAL)
        finally:
            if client.status == "running":  # otherwise the scheduler is lost, and its workers end
                with suppress(Exception, CancelledError):  # the cluster may be about to end
                    # Unlike `client.run`, `sync` has a time limit, needed for a worker that does not answer.
                    client.sync(client.run, stop_run, client.id, on_error="ignore", callback_timeout=_TIMEOUT)
            client.close(timeout=_TIMEOUT)

    def _look_for_workers(self) -> None:
        """Count the threads of workers that may fit. Announce a lack of such workers. Pause if all refuse the run.

        Raises:
            UsageError: All connected workers refuse the run before any task is done, or the connection is lost.
        """
        try:
            threads: dict[str, int] = self._client.nthreads()
        except (Exception, CancelledError):  # Dask has many classes of errors for a lost connection
            raise self._loss from None
        self._threads = {address: count for address, count in threads.items() if address not in self._refusals}
        if threads and not self._threads and not self._has_results:
            raise UsageError(self._refusals[next(iter(threads))])
        if not self._threads and not self._waits_for_worker:
            worker = "worker that fits" if threads else "worker"
            progress.announce(f"no {worker} is connected to {self._address}; waiting for one")
        self._waits_for_worker = not self._threads
        if threads and not self._threads:  # these workers would refuse the tasks again at once
            time.sleep(_INTERVAL)

    def _read_results(self, job: Job, results: Iterable[tuple[Future[Any], Any]]) -> tuple[list[Done], list[Task]]:
        """Return outcomes of ended tasks, and refused tasks. Announce new refusals. Keep an error that ends the run."""
        outcomes, refused = [], []
        # For a failed task, Dask returns three values: the class of the error (here `address`), the error, a traceback.
        for future, (address, outcome, *_) in results:
            task = self._tasks.pop(future)
            if isinstance(outcome, SliceportError):  # `serve` returns errors of the model as a Done
                self._error = outcome
            elif isinstance(outcome, Exception):
                outcomes.append(_make_lost_outcome(job, task, outcome))
            elif isinstance(outcome, Done):
                outcomes.append(outcome)
                self._has_results, self._waits_for_worker = True, False
            else:
                refused.append(task)
                if address not in self._refusals:
                    self._refusals[address] = f"the worker at {address} {outcome}"
                    progress.announce(f"the run does without a worker: {self._refusals[address]}")
        return outcomes, refused

    def _submit(self, job: Job, journal: str, tasks: Sequence[Task]) -> None:
        """Give tasks to the scheduler. Prefer workers that have not refused the run."""
        run, needed = self._client.id, needed_versions()

        # Dask pickles the code of a local function. For a global function, Dask pickles only the name, and a scheduler
        # without sliceport could not load the function.
        def sliceport_task(packed: bytes) -> tuple[str, Done | str]:  # address of the worker, and result of `serve`
            from distributed import get_worker

            try:
                from sliceport.batch.cluster import serve
            except ImportError as error:
                return get_worker().address, f"lacks this version of sliceport ({error}); install it there."
            return get_worker().address, serve(run, needed, packed)

        # After an exception, for example if a network share did not answer, Dask retries a task up to twice.
        options: dict[str, Any] = {"retries": 2, "pure": False}  # not pure: each future has a key of its own
        if self._refusals and self._threads:
            # Other workers remain allowed. Otherwise a task would wait for ever if all preferred workers ended.
            options |= {"workers": list(self._threads), "allow_other_workers": True}
        # The last item says whether the client sees the model. If not, a worker does not look for the model, either.
        packed = [pickle.dumps((job, task, journal, os.path.exists(task.location))) for task in tasks]
        # `map` would rank the tasks. After each death of a worker, the same tasks would then run first again, and Dask
        # would soon give up these tasks as the cause of the deaths.
        futures = [self._client.submit(sliceport_task, data, **options) for data in packed]
        self._tasks.update(zip(futures, tasks, strict=True))
        self._completed.update(futures)


def _make_lost_outcome(job: Job, task: Task, error: Exception) -> Done:
    """Return the outcome of a task that Dask has given up because of `error`."""
    from distributed import KilledWorker

    message = f"no worker could do it ({type(error).__name__}: {error})."
    if isinstance(error, KilledWorker):
        message = "every worker that got this model ended; run the same command again to retry it."
    return Done(task.model, "", "lost", row=make_failure_row(job.command, "lost", message, task.model))


def needed_versions() -> dict[str, str]:
    """Return the versions that all machines of a run must share: packages, and Python without its patch number."""
    return versions() | {"python": ".".join(platform.python_version_tuple()[:2])}


def serve(run: str, needed: dict[str, str], packed: bytes) -> Done | str:
    """Do a task of a run and return the outcome. If this worker does not fit the run, return the reason.

    The reason continues a sentence that begins with `the worker`. The worker needs the versions in `needed`. `packed`
    holds the pickled job, task and name of the journal, and whether the client sees the model as a file. `packed` is
    unpickled only after the versions are compared, because other versions may fail to read it.

    Raises:
        RunStopped: The run is over.
        UsageError: Results cannot be read or stored, or no child process can be started.
    """
    if difference := describe_difference(needed_versions(), needed):
        return f"has {difference}, and would compute something else; install the same versions."
    job, task, journal, is_file = pickle.loads(packed)  # noqa: S301 - from the client, whose code runs here anyway
    model = task.location if is_file else None
    # A run that this worker has accepted is not checked again.
    if run not in _stop_events and (refusal := describe_refusal(job.root, journal, model)):
        return refusal
    stop_event = _stop_events.setdefault(run, threading.Event())
    store = open_store(job.root)
    scratch = store.new_scratch()
    try:
        return process_model(job, task, scratch, stop_event)
    finally:
        store.remove_scratch(scratch)
        if stop_event.is_set():  # the child of this task may have become idle after `stop_run`
            supervisor.end_idle()


def describe_refusal(root: str, journal: str, model: str | None) -> str:
    """Return why this worker does not see the results or the model. Return "" if it sees both.

    A folder `root` alone proves nothing, because it may be another folder of this machine. So the worker looks for the
    journal, whose name is random. `model` is a path, or None if the worker need not see the model.
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
    supervisor.end_calls(_stop_events.setdefault(run, threading.Event()))  # also stops a task that arrives later
    supervisor.end_idle()

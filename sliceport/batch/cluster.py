"""Tasks on a cluster: the scheduler of dask.distributed gives them to its workers.

The workers write results to the store. If a worker dies, Dask gives its tasks to other workers. If the scheduler is
lost, the run ends, and the same command continues it.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import re
import time
from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from sliceport import progress
from sliceport.batch.cluster_worker import needed_versions, stop_run
from sliceport.batch.names import is_url
from sliceport.batch.result import make_failure_row
from sliceport.batch.runner import Runner
from sliceport.batch.store import open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.errors import MissingExtra, SliceportError, UsageError

if TYPE_CHECKING:
    from distributed import Client

_URL = re.compile(r"(?:dask://|(tcp://|tls://))((?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5})/?")
"""Protocol, host and port of a scheduler. For `dask://`, Dask's configuration sets the protocol."""
_TIMEOUT = 20.0
"""Seconds to wait for the scheduler: to connect, to stop the run on its workers, and to disconnect."""
_RETRIES = 2
"""Number of times that Dask repeats a task after an exception, for example if a network share did not answer."""
_MIN_FUTURES, _FUTURES_A_THREAD = 32, 4
"""The scheduler gets at most 32 tasks at once, or 4 for each thread of the workers if that is more.

If it had all tasks, a worker could have many of them. When a worker dies, Dask counts that against each task of the
worker, and gives up a task after a few deaths.
"""
_INTERVAL = 3.0
"""Seconds between two looks for workers while no task ends."""


def open_cluster(url: str) -> Runner:
    """Connect to a cluster, and return a runner that gives tasks to its workers.

    Raises:
        UsageError: The URL has another form, or the scheduler cannot be reached.
        MissingExtra: distributed is not installed.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise UsageError(f"--cluster must be dask://HOST:PORT, the scheduler of dask.distributed, got {url!r}.")
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra.of("distributed", "dask", "by --cluster") from None
    # Dask gives these loggers handlers that print tracebacks when a scheduler ends.
    for name in ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        logging.getLogger(name).handlers[:] = [logging.NullHandler()]
        logging.getLogger(name).propagate = False
    address = (match[1] or "") + match[2]
    progress.say(f"connecting to {address}")
    try:
        client = Client(address, timeout=_TIMEOUT, set_as_default=False, name="sliceport")
    except Exception as error:  # each cause, such as the network or TLS, has errors of its own
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise UsageError(f"--cluster: the scheduler at {address} cannot be reached ({reason}).") from None
    return _DaskRunner(client, address).run


class _DaskRunner:
    """A runner that gives tasks to the workers of a scheduler.

    A worker fits a run if it has the same versions of all packages, and sees the models and the results. A worker that
    does not fit refuses its tasks, and they are submitted again. No WorkerPlugin checks this in advance: a worker that
    cannot load a registered plugin does not start, and the plugin of a killed client stays registered.
    """

    def __init__(self, client: Client, address: str) -> None:
        self._client, self._address = client, address
        loss = f"--cluster: the connection to the scheduler at {address} is lost"
        self._loss_message = f"{loss}; the same command goes on where this one has ended."
        self._tasks: dict[Any, Task] = {}
        """Tasks under way, by their future. Dask cancels a task if no reference to its future is left."""
        self._results: queue.Queue[tuple[Any, Any]] = queue.Queue()
        """Futures that are done, with their results; None if the task failed."""
        self._refusals: dict[str, str] = {}
        """The reason why each worker that does not fit refuses the run, by its address."""
        self._fit: list[str] = []
        """Addresses of the workers that may fit."""
        self._limit = _MIN_FUTURES
        self._has_results = False
        self._waits_for_worker = False

    def run(self, job: Job, tasks: Iterable[Task]) -> Generator[Done]:
        """Give all tasks to the workers, and yield the outcome of each task once."""
        try:
            # A worker that sees this file sees the results; see `describe_refusal`. A run writes its journal first.
            journal = open_store(job.root).names("runs")[-1]
            remaining = iter(tasks)
            while True:
                if self._results.empty():
                    self._look_for_workers()
                for task in islice(remaining, max(0, self._limit - len(self._tasks))):
                    self._submit(job, task, journal)
                if not self._tasks:
                    return
                try:
                    future, result = self._results.get(timeout=_INTERVAL)
                except queue.Empty:
                    continue
                task = self._tasks.pop(future)
                done = self._read_result(job, task, future, result)
                if done is None:
                    self._submit(job, task, journal)
                else:
                    yield done
        finally:
            client = self._client
            if client.status == "running":  # otherwise the scheduler is lost, and its workers end
                with suppress(Exception, CancelledError):  # the cluster may just be ending
                    # `client.run` has no time limit, and would wait for a worker that does not answer; `sync` has one.
                    client.sync(client.run, stop_run, client.id, on_error="ignore", callback_timeout=_TIMEOUT)
            client.close(timeout=_TIMEOUT)

    def _look_for_workers(self) -> None:
        """Update the list of workers that may fit, and the limit of tasks under way. Announce a lack of workers.

        Raises:
            UsageError: Workers are connected, but none fits and none has done a task; or the connection is lost.
        """
        threads: dict[str, int] = self._ask(self._client.nthreads)
        self._fit = [address for address in threads if address not in self._refusals]
        if not self._fit:
            if threads and not self._has_results:
                others = f" (and {len(threads) - 1} more workers)" if len(threads) > 1 else ""
                raise UsageError(next(iter(self._refusals.values())) + others)
            if not self._waits_for_worker:
                worker = "worker that fits" if threads else "worker"
                progress.announce(f"no {worker} is connected to {self._address}; waiting for one")
            if threads:  # they would refuse the tasks again at once
                time.sleep(_INTERVAL)
        self._waits_for_worker = not self._fit
        self._limit = max(_MIN_FUTURES, _FUTURES_A_THREAD * sum(threads[address] for address in self._fit))

    def _submit(self, job: Job, task: Task, journal: str) -> None:
        """Give a task to the scheduler. Prefer workers that have not refused the run."""
        run, needed = self._client.id, needed_versions()
        model = task.location if not is_url(task.location) and os.path.exists(task.location) else None
        packed = pickle.dumps((job, task, journal, model))

        # Dask pickles the code of a local function. Of a global function it pickles the name, which a scheduler without
        # sliceport could not load. The function returns the address of the worker, and the outcome. If the worker
        # refuses the run, it returns the reason instead of the outcome, as a predicate; see `serve`.
        def sliceport_task() -> tuple[str, Done | str]:
            from distributed import get_worker

            address = get_worker().address
            try:
                from sliceport.batch.cluster_worker import serve
            except ImportError as error:
                return address, f"lacks this version of sliceport ({error}); install it there."
            return address, serve(run, needed, packed)

        options: dict[str, Any] = {"pure": False, "retries": _RETRIES}  # not pure: each future has a key of its own
        if self._refusals and self._fit:
            # Other workers remain allowed, because if all preferred ones end, the task would wait for ever.
            options |= {"workers": self._fit, "allow_other_workers": True}
        future = self._ask(self._client.submit, sliceport_task, **options)
        self._tasks[future] = task
        self._client.loop.add_callback(self._fetch, future)  # type: ignore[union-attr]

    async def _fetch(self, future: Any) -> None:
        """Put a future and its result into `_results`. Dask repeats the task if its worker dies with the result."""
        result = None
        with suppress(Exception, CancelledError):  # the connection is lost
            result = await self._client.gather(future, errors="skip", asynchronous=True)
        self._results.put((future, result))

    def _read_result(self, job: Job, task: Task, future: Any, result: Any) -> Done | None:
        """Return the outcome of a task. If the worker refused the task, note and announce the reason, and return None.

        Raises:
            SliceportError: The task raised it, because results cannot be stored; or the connection is lost.
        """
        from distributed import KilledWorker

        if result is not None:
            address, outcome = result
            if isinstance(outcome, Done):
                self._has_results = True
                return outcome
            if address not in self._refusals:
                self._refusals[address] = f"the worker at {address} {outcome}"
                progress.announce(f"the run does without a worker: {self._refusals[address]}")
            return None
        if future.status != "error":  # such as "cancelled": the client cancels futures when the connection is lost
            raise UsageError(self._loss_message)
        error = future.exception()
        if isinstance(error, SliceportError):
            raise error
        message = f"no worker could do it ({type(error).__name__}: {error})."
        if isinstance(error, KilledWorker):
            message = "every worker that it was given to ended; the same command tries it again."
        return Done(task.model, "", "lost", row=make_failure_row(job.command, "lost", message, task.model))

    def _ask(self, request: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method of the client. Any error counts as a lost connection, because Dask has many classes for it."""
        try:
            return request(*args, **options)
        except (Exception, CancelledError):
            raise UsageError(self._loss_message) from None
